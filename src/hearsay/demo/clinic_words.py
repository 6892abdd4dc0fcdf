"""What the simulated clinic treats: for each specialty the words anyone would expect, and those of the house.

TERMS are public: the generator may be told them. The house's complaints, findings, acts and drugs stand only in the
notes; that difference is what a private discriminator can teach.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Specialty:
    terms: tuple[str, ...]  # public
    complaints: tuple[str, ...]
    findings: tuple[str, ...]
    acts: tuple[str, ...]
    drugs: tuple[str, ...]


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(";"))


SPECIALTIES: dict[str, Specialty] = {
    "cardiology": Specialty(
        _list("chest pain; heart failure; high blood pressure; heart attack; irregular heart beat; heart valve"),
        _list("tightness across the chest on stairs; palpitations at night; swollen ankles; fainting while standing"),
        _list("an S3 gallop; a systolic murmur at the apex; ST depression in V4 to V6; an ejection fraction of 35"),
        _list("stress echo; Holter for 48 hours; angiogram by the radial route; cardioversion"),
        _list("bisoprolol; ramipril; apixaban; furosemide"),
    ),
    "orthopedics": Specialty(
        _list("knee pain; broken hip; shoulder injury; torn ligament; arthritis of the joint; ankle fracture"),
        _list("giving way of the knee; groin pain on rotation; a pop in the shoulder; stiffness after rest"),
        _list("a positive Lachman; crepitus over the patella; loss of internal rotation; an effusion of 30 ml"),
        _list("arthroscopy with meniscal trim; plate and screws; cemented hemiarthroplasty; cuff repair"),
        _list("naproxen; enoxaparin; cefazolin; paracetamol"),
    ),
    "gastroenterology": Specialty(
        _list("stomach ulcer; colonoscopy; liver disease; heartburn; bowel disease; gallstones"),
        _list("burning after meals; dark stools; cramps before bowel movements; yellow eyes"),
        _list("a sessile polyp at 40 cm; grade B oesophagitis; a soft distended abdomen; raised lipase"),
        _list("snare polypectomy; banding of varices; ERCP with sphincterotomy; duodenal biopsies"),
        _list("pantoprazole; mesalazine; lactulose; rifaximin"),
    ),
    "neurology": Specialty(
        _list("stroke; seizure; migraine; multiple sclerosis; memory loss; numbness of the hand"),
        _list("drooping of the mouth; a blank stare for a minute; pins and needles in both feet; shaking at rest"),
        _list("an upgoing plantar; nystagmus to the left; cogwheel rigidity; a lesion in the left thalamus"),
        _list("lumbar puncture; EEG after sleep deprivation; nerve conduction study; carotid duplex"),
        _list("levetiracetam; levodopa; sumatriptan; clopidogrel"),
    ),
    "dermatology": Specialty(
        _list("skin rash; eczema; psoriasis; mole; acne; skin cancer"),
        _list("itching that wakes the child; a dark spot that has grown; flakes on elbows; spots on the back"),
        _list("silvery plaques; a pearly nodule with vessels; lichenified folds; comedones over the chin"),
        _list("punch biopsy; excision with 4 mm margin; cryotherapy; patch testing"),
        _list("betamethasone cream; doxycycline; calcipotriol; isotretinoin"),
    ),
    "ophthalmology": Specialty(
        _list("cataract; glaucoma; blurred vision; eye infection; retina; loss of sight"),
        _list("halos around lamps; floaters since Monday; a gritty red eye; trouble reading small print"),
        _list("pressure of 28 on the right; a nuclear opacity; a horseshoe tear at two o'clock; a pale disc"),
        _list("phaco with lens implant; laser iridotomy; intravitreal injection; slit lamp review"),
        _list("latanoprost drops; chloramphenicol drops; atropine; acetazolamide"),
    ),
    "urology": Specialty(
        _list("kidney stone; prostate; blood in the urine; bladder infection; urinary retention; catheter"),
        _list("a weak stream; colic from flank to groin; going four times a night; pink urine"),
        _list("a 7 mm stone at the junction; a firm left lobe; residual of 220 ml; a papillary lesion"),
        _list("flexible cystoscopy; ureteroscopy with laser; resection of the prostate; stent exchange"),
        _list("tamsulosin; finasteride; nitrofurantoin; solifenacin"),
    ),
    "psychiatry": Specialty(
        _list("depression; anxiety; panic attack; sleeplessness; alcohol; hearing voices"),
        _list("no joy for weeks; worry that will not stop; voices that comment; checking the stove ten times"),
        _list("flat affect; pressured speech; no plan to harm herself; poor insight"),
        _list("cognitive therapy, session four; a safety plan; motivational interview; review of lithium level"),
        _list("sertraline; olanzapine; lithium; mirtazapine"),
    ),
}

# How often each comes to the clinic: uneven, so that even shares of labels would be wrong.
ODDS = (9, 7, 6, 4, 3, 2, 2, 1)

HEADS = {
    "old": ("Complaint: ", "Found: ", "Done: ", "Rx: "),
    "new": ("S: ", "O: ", "P: ", "Meds: "),
    "letter": ("Thank you for sending this patient with ", "On examination there was ", "We did ", "Please continue "),
}
COURSE = (
    "for two weeks",
    "since last winter",
    "on and off for years",
    "worse in the past month",
    "after a fall",
    "as before",
)
CLOSE = (
    "Review in six weeks.",
    "Back if worse.",
    "Results to follow by post.",
    "Discharged to the family doctor.",
    "Discussed with the senior on call.",
    "Booked for the next list.",
)
