"""What anyone may know about medical specialties: terms of each, and how a clinical note opens.

Written from general knowledge, before any note of the private corpus was looked at. It stands in for what a large
language model would know: no such model is at hand, and a small one must be told what a specialty is about.
"""

import random

TERMS: dict[str, str] = {
    "Allergy / Immunology": "allergic rhinitis, asthma, hives, food allergy, anaphylaxis, pollen, nasal congestion, "
    "immunoglobulin deficiency, drug allergy, skin prick test, hay fever, angioedema",
    "Autopsy": "cause of death, external examination of the body, gunshot wound, rigor mortis, livor mortis, "
    "blunt force injury, weight of the organs, toxicology, coroner, postmortem examination, stab wound",
    "Bariatrics": "morbid obesity, gastric bypass, body mass index, weight loss surgery, lap band, sleeve gastrectomy, "
    "Roux-en-Y, dietary counselling before surgery, failed diets",
    "Cardiovascular / Pulmonary": "chest pain, coronary artery disease, heart failure, atrial fibrillation, "
    "cardiac catheterization, echocardiogram, stress test, hypertension, pneumonia, bronchoscopy, pleural effusion, "
    "COPD, pacemaker, coronary artery bypass, aortic valve stenosis, pulmonary embolism, shortness of breath, "
    "left ventricle, carotid artery, thoracentesis, myocardial infarction",
    "Chiropractic": "neck pain after a car accident, spinal adjustment, lumbar subluxation, whiplash, stiff back, "
    "cervical range of motion, muscle spasm, chiropractic manipulation",
    "Consult - History and Phy.": "history of present illness, review of systems, past medical history, "
    "family history, social history, physical examination, assessment and plan, reason for consultation, allergies, "
    "current medications, vital signs, admission to the hospital",
    "Cosmetic / Plastic Surgery": "breast augmentation, facelift, rhinoplasty, liposuction, blepharoplasty, "
    "breast reduction, abdominoplasty, skin graft, scar revision, breast reconstruction, eyelid surgery",
    "Dentistry": "tooth extraction, impacted wisdom teeth, dental caries, jaw fracture, gum disease, root canal, "
    "dental abscess, molar, mandible, oral surgery, dental implant",
    "Dermatology": "skin rash, eczema, psoriasis, acne, melanoma, mole, skin lesion, basal cell carcinoma, "
    "shave biopsy, itching, dermatitis, actinic keratosis, wart",
    "Diets and Nutritions": "diabetic diet, calorie intake, nutrition counselling, weight management, low sodium diet, "
    "carbohydrate counting, food diary, cholesterol and diet, protein intake",
    "Discharge Summary": "date of admission, date of discharge, hospital course, discharge diagnosis, "
    "discharge medications, condition at discharge, follow-up after discharge, discharge instructions",
    "ENT - Otolaryngology": "tonsillectomy, adenoids, ear infection, tympanostomy tubes, sinusitis, hearing loss, "
    "hoarseness, nasal septum deviation, laryngoscopy, thyroid nodule, vocal cords, sore throat, parotid gland, "
    "tympanic membrane, myringotomy, neck mass",
    "Emergency Room Reports": "arrival by ambulance, motor vehicle accident, laceration, emergency department, "
    "overdose, sudden onset of pain, fall from a height, triage, burn, unconscious",
    "Endocrinology": "diabetes mellitus, hypothyroidism, thyroid cancer, insulin, blood glucose, thyroidectomy, "
    "adrenal gland, hyperparathyroidism, Graves disease, pituitary tumor, hemoglobin A1c, goiter",
    "Gastroenterology": "colonoscopy, abdominal pain, gastroesophageal reflux, ulcer, gallbladder, cholecystectomy, "
    "upper endoscopy, hepatitis, rectal bleeding, hernia repair, appendicitis, polyp, diarrhea, cirrhosis, "
    "Crohn disease, dysphagia, colon resection, pancreatitis, hemorrhoids, bowel obstruction",
    "General Medicine": "cough and fever, annual physical examination, high blood pressure, fatigue, upper respiratory "
    "infection, medication refill, weight gain, type 2 diabetes, dizziness, urinary tract infection, headache",
    "Hematology - Oncology": "breast cancer, chemotherapy, anemia, leukemia, lymphoma, metastasis, lung cancer, "
    "bone marrow biopsy, radiation therapy, platelet count, prostate cancer, lymph node, mastectomy, sickle cell "
    "disease, port placement, tumor staging, multiple myeloma",
    "Hospice - Palliative Care": "terminal illness, comfort care, end of life, pain control in hospice, "
    "advance directive, family meeting, do not resuscitate, metastatic disease without further treatment",
    "IME-QME-Work Comp etc.": "work injury, independent medical evaluation, permanent disability rating, "
    "return to work, lifting at work, workers compensation claim, impairment, work restrictions",
    "Lab Medicine - Pathology": "biopsy specimen, gross description, microscopic description, pathologic diagnosis, "
    "frozen section, margins, histology, immunostains",
    "Letters": "dear doctor, thank you for referring this patient, sincerely, letter of recommendation, "
    "I saw your patient today, please contact my office",
    "Nephrology": "kidney failure, dialysis, creatinine, renal transplant, proteinuria, hemodialysis catheter, "
    "arteriovenous fistula, chronic kidney disease, hyperkalemia, kidney biopsy, electrolytes, kidney stones",
    "Neurology": "seizure, stroke, headache, multiple sclerosis, EEG, MRI of the brain, numbness, tremor, "
    "Parkinson disease, memory loss, nerve conduction study, weakness of the left side, dementia, migraine, "
    "peripheral neuropathy, electromyography, gait disturbance",
    "Neurosurgery": "craniotomy, brain tumor, lumbar laminectomy, cervical discectomy and fusion, subdural hematoma, "
    "ventriculoperitoneal shunt, herniated disc, spinal stenosis, aneurysm clipping, hydrocephalus, spinal cord, "
    "decompression of the nerve root",
    "Obstetrics / Gynecology": "pregnancy, cesarean section, hysterectomy, vaginal delivery, pelvic pain, ovarian "
    "cyst, uterine fibroids, abnormal Pap smear, labor and delivery, tubal ligation, menstrual bleeding, prenatal "
    "care, fetal heart rate, laparoscopy of the pelvis, miscarriage, dilation and curettage",
    "Ophthalmology": "cataract extraction, intraocular lens, glaucoma, visual acuity, retinal detachment, cornea, "
    "macular degeneration, blurred vision, phacoemulsification, vitrectomy, conjunctiva, eye pressure",
    "Orthopedic": "knee arthroscopy, hip fracture, total knee replacement, rotator cuff tear, carpal tunnel release, "
    "shoulder pain, meniscus tear, ankle fracture, open reduction and internal fixation, femur, anterior cruciate "
    "ligament, total hip arthroplasty, trigger finger, osteoarthritis, wrist, tendon repair, cast and splint",
    "Pain Management": "chronic low back pain, epidural steroid injection, facet joint injection, nerve block, "
    "sciatica, opioid medication, lumbar radiculopathy, trigger point injection, spinal cord stimulator, "
    "fluoroscopic guidance, neuropathic pain",
    "Pediatrics - Neonatal": "newborn, well child visit, premature infant, circumcision, fever in an infant, "
    "jaundice in a newborn, immunizations, ear infection in a child, breast feeding, growth and development, croup, "
    "birth weight",
    "Physical Medicine - Rehab": "rehabilitation after stroke, functional independence, inpatient rehabilitation, "
    "gait training, spasticity, wheelchair, physical therapy goals, amputation",
    "Podiatry": "bunion, hammertoe, ingrown toenail, foot ulcer, plantar fasciitis, heel pain, metatarsal osteotomy, "
    "diabetic foot, hallux valgus, big toe",
    "Psychiatry / Psychology": "depression, anxiety, schizophrenia, suicidal thoughts, bipolar disorder, substance "
    "abuse, mental status examination, hallucinations, attention deficit disorder, psychological testing, alcohol "
    "dependence, mood and affect",
    "Radiology": "CT scan of the abdomen, chest x-ray, ultrasound, mammogram, MRI with contrast, bone scan, "
    "impression of the images, radiograph, contrast enhancement, technique and findings",
    "Rheumatology": "rheumatoid arthritis, lupus, joint swelling, gout, fibromyalgia, methotrexate, morning "
    "stiffness, prednisone for arthritis, osteoporosis, vasculitis",
    "SOAP / Chart / Progress Notes": "subjective, objective, assessment, plan, follow-up visit, doing well today, "
    "no new complaints, continue present medications, progress note",
    "Sleep Medicine": "sleep apnea, polysomnography, snoring, CPAP titration, insomnia, daytime sleepiness, "
    "restless legs, apnea-hypopnea index, REM sleep",
    "Speech - Language": "speech therapy, aphasia, articulation, swallowing evaluation, language delay, stuttering, "
    "cognitive linguistic therapy, expressive language",
    "Surgery": "incision and drainage, general anesthesia, excision of a mass, debridement of a wound, operative "
    "procedure, central line placement, sutures, prepped and draped, abscess, tracheostomy, estimated blood loss",
    "Urology": "prostate, cystoscopy, kidney stone, hematuria, bladder tumor, urinary retention, ureteral stent, "
    "vasectomy, scrotal mass, erectile dysfunction, lithotripsy, transurethral resection, circumcision in an adult, "
    "undescended testis, urinary incontinence",
}

OPENINGS = (
    "REASON FOR VISIT: {Term}. HISTORY OF PRESENT ILLNESS: The patient is a {age}-year-old {sex} with {term}.",
    "CHIEF COMPLAINT: {Term}. SUBJECTIVE: This {age}-year-old {sex} comes in today because of {term}.",
    "PREOPERATIVE DIAGNOSIS: {Term}. POSTOPERATIVE DIAGNOSIS: {Term}. PROCEDURE: The patient was taken to the "
    "operating room,",
    "INDICATIONS: The patient is a {age}-year-old {sex} with {term}. DESCRIPTION OF PROCEDURE:",
    "PROCEDURE: {Term}. ANESTHESIA: General. FINDINGS:",
    "HISTORY: A {age}-year-old {sex} with a history of {term}. PHYSICAL EXAMINATION:",
    "EXAM: {Term}. FINDINGS: There is",
    "IMPRESSION: {Term} in a {age}-year-old {sex}. PLAN:",
    "ADMISSION DIAGNOSIS: {Term}. HOSPITAL COURSE: The patient, a {age}-year-old {sex},",
    "I was asked to see this {age}-year-old {sex} regarding {term} and {other}.",
)


def terms(label: str) -> list[str]:
    return [term.strip() for term in TERMS[label].split(",")]


def opening(label: str, chance: random.Random) -> tuple[str, str]:
    """A term of the specialty, and the first words of a note about it."""
    term, other = chance.sample(terms(label), 2)
    return term, fill(chance.choice(OPENINGS), term, other, chance)


def fill(form: str, term: str, other: str, chance: random.Random) -> str:
    age, sex = chance.randint(1, 88), chance.choice(("man", "woman", "male", "female"))
    return form.format(term=term, Term=term[:1].upper() + term[1:], other=other, age=age, sex=sex)


_LOWER = [(term.strip().lower(), label) for label, listed in TERMS.items() for term in listed.split(",")]


def specialty_of(topic: str) -> str | None:
    """The specialty whose terms a public topic mentions first, or none."""
    low = topic.lower()
    found = [(low.find(term), -len(term), label) for term, label in _LOWER if term in low]
    return min(found)[2] if found else None
