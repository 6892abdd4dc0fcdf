"""What people add without being asked: customers tell stories, agents explain rules. And everybody's synonyms.

Most of the corpus's variety is here. Errands alone would be a form to fill in; with asides a row says something that was
never said before, in words that were. See grammar.py for the notation.
"""

# ruff: noqa: E501 - an alternative is one line, or its brackets cannot be read
ASIDES = {
    "customer.aside": """
        <someone> (at|in|from|near) <spot> (told|assured|promised|wrote to|warned) (me|us|<companion>) <claim>
        (i|we) <did> (the|my|our) <paper> <past> (but|and|so|yet) <outcome>
        (i was|we were|<companion> and i were|<someone> was) <doing> (at|in|near|behind) <spot> (when|while|as|just before) <event>
        (i|we|<companion>) <feeling> (about|because of|after|over) (the|this|that|your) (<comfort>|<deal>)
        (the|our|that) (<comfort>|<deal>) (was|looked|seemed|felt) <verdict>(, <outcome>| <past>|)
        (to be honest|frankly|you see|by the way|in case it matters|just so you know|between us|as you can imagine), (the|my|our) (<paper>|<deal>) (was|is|got) (<verdict>|<fate>)
        (it's|this is|that was) (my|our) (first|second|third|last|only|worst|best) (<deal>|<comfort>) (in <nights> years|since <month>|this year|with <companion>|at <spot>)
        (my|our|the|your) <item> (was|is|stayed|ended up) (<fate>|at <spot>|in <city>|under seat <seatno2>) (<past>|and <outcome>|)
        (last|this) (year|summer|winter|month|week) (i|we) (booked|planned|wanted|had) (a|another|one more) <deal> (to|via|from) <city> (with <companion>|for <reason>|)
        """,
    "agent.note": """
        (our|the) <desk> (in <city>|at <spot>|) (opens|closes|answers|calls back|replies|decides) (at <time2>|<soon>|by <day2>|within <hours> hours).
        (please|kindly|do|remember to) (bring|keep|print|upload|show|sign|scan|photograph) (the|your|any) <paper> (at <spot>|before <day2>|for our <desk>|<soon>).
        (i|we|our <desk>) (can|could|may|will) (also|even|still|only) <help> (the|your) (<deal>|<paper>) (at <spot>|by <day2>|for <fee>|from here|<soon>).
        (as|since|because|if) (the|your) (<deal>|<paper>) (is|was|looks) <fate>, (i|we|our <desk>) (will|must|would) <help> (it|that) <soon>.
        (for|with|without) (a|the|your) <paper> (our|the) <desk> (asks for|needs|accepts|offers) (<fee>|a copy|nothing more|a signature|your card number).
        (a|the|that|every) <deal> (usually|often|sometimes|rarely|normally|hardly ever|never) (costs <fee>|takes <hours> hours|gets <fate>) (at <spot>|in <month>|on a <day2>|).
        """,
    "someone": """
        (the|a|one) (lady|man|guy|woman|steward|pilot|stewardess|policeman|receptionist|officer|porter|trainee|supervisor|driver|cleaner|volunteer|student|captain|nurse|security guard|teenager|tourist|translator|chef|mechanic|priest|journalist|businessman|shopkeeper) (with the (beard|glasses|red scarf|badge|hat)|called <agent>|)
        (your|their|some) (colleague|manager|hotline|robot|partner|office|call centre|crew|assistant) (<agent>|)
        """,
    "spot": """
        (the|your) (gate|counter|lounge|hotel|car park|ticket office|baggage hall|security line|duty free shop|bus stop|train station|passport control|cafe|escalator|taxi rank|information desk|transfer desk|rental car desk|pharmacy|prayer room|playground|smoking area|exchange office|family zone|food court|fast track|oversize belt|tram stop|arrivals hall|bookshop|first aid room|customs office)
        (terminal <terminal>|gate <gate>|<from>|<to>|<city>|the airport in <city>|the <hotel> hotel)
        """,
    "paper": """
        (new|old|wrong|original|printed|valid|digital|lost|signed|official|second|missing|temporary|foreign|blue|crumpled|unreadable|duplicate|translated|handwritten|electronic|stamped|laminated|) (boarding pass|receipt|passport|itinerary|visa|form|confirmation|letter|certificate|voucher|ticket|baggage tag|prescription|permit|insurance policy|travel document|bank statement|screenshot|birth certificate|driving licence|student card|parking slip|hotel bill|police report|vaccination card|meal coupon|upgrade offer|invoice|complaint|claim form)
        """,
    "deal": """
        (cheap|late|early|missed|expensive|short|long|direct|confusing|quick|unexpected|double|free|overnight|strange|simple|last minute|domestic|international|planned|spontaneous|partial|flexible|bumpy|) (connection|transfer|rebooking|payment|discount|upgrade|layover|departure|landing|check-in|flight|stopover|booking|boarding|phone call|trip|journey|security check|transit|detour|group booking|seat swap|date change|name change|bus ride|refund|cancellation|promotion|waiting list|bonus|night flight|return leg)
        """,
    "item": """
        (new|old|heavy|wet|broken|little|red|black|favourite|expensive|borrowed|green|leather|antique|fragile|golden|yellow|rented|half-empty|striped|) (suitcase|stroller|jacket|laptop|charger|umbrella|birthday cake|violin|medicine|wedding dress|tent|camera|teddy|headphones|walking stick|tablet|surfboard|coat|perfume|hat|book|tennis racket|drone|guitar|pillow|glasses|phone|wallet|keys|scarf|bicycle|ski boots|baby monitor|painting|cheese|wine bottle|trumpet|sewing machine|contact lenses)
        """,
    "comfort": """
        (cold|noisy|dirty|friendly|comfortable|narrow|broken|empty|crowded|stuffy|smelly|lovely|slow|rude|tiny|tasteless|sticky|elegant|outdated|overheated|spotless|chaotic|) (meal|seat|crew|row|toilet|cabin|headset|blanket|coffee|screen|shuttle bus|queue|lounge|breakfast|air conditioning|armrest|waiting area|wifi|announcement|tray table|window blind|overhead bin|dessert|film|pillow|sandwich|reading light|seat belt|boarding line|drinks trolley|legroom|welcome drink|bus driver)
        """,
    "verdict": """
        (a bit|really|rather|quite|so|far too|surprisingly|) (late|cold|expensive|confusing|strange|slow|noisy|unclear|stressful|messy|good|boring|terrible|pleasant|complicated|short|useless|scary|funny|chaotic|unfair|exhausting|impressive|awkward|sad|helpful|dull|relaxed|hectic|cheap|dangerous|perfect|disgusting|average|odd|annoying)
        """,
    "fate": """
        (lost|found|delayed|refused|forgotten|stamped|checked|cancelled|changed|stolen|returned|confirmed|damaged|ignored|accepted|misplaced|expired|corrected|mixed up|locked|approved|shortened|blocked|opened|torn|extended|rejected|replaced|downgraded|overbooked|swapped|verified|withdrawn|postponed|reopened)
        """,
    "did": """
        (booked|paid|lost|found|sent|printed|changed|cancelled|checked|bought|ordered|forgot|signed|uploaded|received|deleted|needed|photographed|reported|packed|returned|shared|mentioned|translated|collected|reserved|dropped|copied|renewed|hid|scanned|posted|compared|downloaded|laminated|requested|showed|folded|finished|borrowed|corrected|demanded)
        """,
    "doing": """
        (waiting|sitting|standing|sleeping|queueing|having (lunch|coffee|dinner|a snack)|looking for (help|a socket|<companion>|a taxi)|running|reading)
        (crying|working|shopping|talking to <someone>|filling in the form|changing trains|charging my phone|unpacking|arguing|parking)
        """,
    "event": """
        (the|our|your) (screen|board|plane|bus|door|system|belt|lift|app|printer|scanner) (went blank|broke down|left|closed|changed|stopped|caught fire|said <time2>|froze)
        <someone> (called|stopped|fetched|overheard|looked at|asked for|pointed at|found) (<companion>|me|us|my <item>|our <paper>)
        (it started (to rain|to snow|to hail)|the lights went out|the alarm rang|everybody ran|they announced <city>|<flight> left|the strike began|the fog came)
        """,
    "claim": """
        (that|) (it|the <deal>|everything|this|a <paper>) (would|will|could|might|should) (be <fate>|be <verdict>|cost <fee>|take <hours> hours|arrive <soon>)
        (that|) (i|we|they) (must|can|could|should|would|needn't) <help> (it|the <deal>|the <paper>) (at <spot>|<soon>|)
        """,
    "outcome": """
        (nothing|something|everything|little) (happened|changed|worked|was clear|came back|made sense)
        (nobody|<companion>|<someone>) (noticed|cared|answered|laughed|complained|understood|helped|apologised)
        (now|then|later) (it was|my <item> was|everything was) (gone|<fate>|<verdict>|at <spot>|in <city>)
        """,
    "feeling": """
        (felt|got|became|seemed|stayed|sounded) (a bit|really|rather|quite|so|) (worried|nervous|excited|angry|sad|relieved|confused|tired|curious|proud|embarrassed|surprised|scared|thrilled|desperate|ashamed|calm|cheerful|sick|bored|hopeful|jealous|grateful|lonely|stressed|amused|uneasy|impatient)
        """,
    "help": """
        (check|change|send|cancel|print|refund|replace|hold|confirm|move|cover|trace|collect|extend|verify|register|translate|deliver|approve|reissue|forward|combine|split|stamp|insure|return|review|upgrade|unlock|reopen|correct|postpone|explain|reserve|reject|document|locate|compare|copy)
        """,
    "desk": """
        (service desk|refund team|baggage office|booking team|station|medical desk|night shift|claims office|ticket counter|sales office|crew|hotline|lost property office|finance team|partner airline|loyalty team|legal department|catering unit|ground staff|tour operator|cargo hall|training centre|quality office|complaints board|check-in hall|customs broker|airport chaplain|group desk)
        """,
    "past": """
        (yesterday|recently|ages ago|at breakfast|at midnight|during lunch|over the weekend|this (morning|week|evening)|last (night|week|month|<day2>)|on <day2>|in <month>|at <time2>|around <time2>|<nights> days ago|<hours> hours ago|twice|right after <reason>|before <reason>)
        """,
    "soon": """
        (today|tomorrow|tonight|shortly|overnight|by noon|at midnight|over the weekend|on <day2>|in <month>|next (week|month|<day2>)|at <time2>|around <time2>|after <time2>|in <minutes> minutes|at once|straight away|before <reason>)
        """,
}

# The first of each line stands in the phrases; % is a space within one of them.
_SYNONYMS = """
    great lovely wonderful brilliant excellent fantastic awesome super terrific cool
    perfect splendid super marvellous ideal excellent
    annoying tiring unpleasant upsetting irritating inconvenient
    annoyed angry furious frustrated fed%up unhappy
    ridiculous absurd crazy outrageous laughable insane
    unacceptable unbelievable shameful appalling
    disappointed let%down disillusioned dissatisfied
    ticket booking reservation fare
    fine alright good okay acceptable sufficient
    ok okay alright fine good
    yes yeah sure indeed exactly correct
    money amount cash
    today now this%morning this%afternoon tonight this%week
    the%card the%credit%card the%debit%card the%bank%card the%company%card
    desk counter office window
    team office department unit squad
    bag suitcase case trolley backpack
    child kid little%one young%passenger
    photos pictures images scans
    photo picture scan copy
    receipts bills slips invoices
    voucher coupon credit%note gift%card
    website page site web%page
    machine kiosk scanner terminal
    very really extremely quite terribly
    always usually normally generally often
    cheaper less%expensive more%affordable
    nice pleasant lovely great relaxing wonderful
    problem issue trouble mess error
    passengers travellers guests people
    passenger traveller guest person
    somebody someone one%of%us
    nobody no%one not%one%person none%of%you
    delay wait hold-up disruption
    broken cracked smashed bent damaged
    sent mailed emailed forwarded
    booked reserved arranged organised
    maybe perhaps possibly
    possible feasible doable allowed
    moment minute second
    happy glad pleased delighted
    extra additional
    small little tiny
    kilos kg kilograms
    says shows claims insists states
    shows says indicates displays tells%me
    offered given promised
    quiet calm well-behaved
    hours hrs
    send mail forward post
    costs comes%to runs%to
    total sum bill balance
    confirmation summary notice message
    understand see know imagine
    slow sluggish overloaded
    certainly definitely surely naturally
    gladly happily willingly
    absolutely totally completely
    trouble hassle bother worry
    leaves departs goes takes%off
    answer explanation update
    clothes trousers shirts shoes
    family relatives parents
    finally eventually
    seriously really
    safe smooth pleasant quiet
    reason cause explanation
    honestly frankly really
    fee charge cost surcharge
    move shift switch transfer
    wonderful marvellous very%kind
    stuck trapped held%up caught
    hotel hostel guesthouse
    arrived came landed turned%up
    ready prepared complete done
    file case record
    colleague coworker teammate
    i%need i%require i'm%looking%for i%could%use i%must%have
    i%can i%could i'm%able%to
    i%can%see i%see i%do%see
    until till
    let%me allow%me%to i'm%going%to i'll%just
    of%course naturally by%all%means
    do%you%have have%you%got is%there
    would%you%like do%you%wish are%you%happy
    the%app your%app the%mobile%app the%phone%app
    booking reservation
    code reference locator
    booking%code confirmation%code reservation%code booking%reference record%locator
    full%name complete%name name%and%surname first%and%last%name
    ending%in that%ends%in with%the%digits finishing%in
    on%board on%the%plane in%the%cabin during%the%flight
    in%total altogether all%in%all
    per%person each per%passenger a%head
    each%way per%direction one%way
    as%planned on%schedule on%time as%usual
    is%free costs%nothing is%on%us
    how%much what%price what%amount
    is%too%much is%too%expensive is%a%rip-off
    is%on%its%way is%coming will%follow
    before%departure before%take-off ahead%of%the%flight
    choose pick select
    buy purchase get
    luggage baggage
    trip journey holiday
    there%is there's
    it%is it's
    missing lost gone
    confirmed settled secured
    i%will i'll i%am%going%to i%can
    i%see i%can%see i%notice i%find
    i%found i%located i%have i%pulled%up i%opened
    i%paid i%already%paid i%spent i%was%billed
    do%you%want would%you%like do%you%wish
    your%booking your%reservation your%trip your%record
    the%booking the%reservation the%trip the%record
    is%fine works%for%me is%okay suits%me
    go%ahead do%it please%proceed let's%go
    so%far for%now at%this%stage until%now
    at%the%moment right%now currently as%of%now
    but however yet though
    nice%day good%day pleasant%day lovely%day
    looking%forward%to excited%about dreaming%of counting%the%days%to
    the%website your%website the%web%page your%site
    anything something
    new fresh different
    difference gap surcharge rest
    stay visit break holiday
    members customers guests flyers
    points miles credits
    meal menu tray dish
    everything all%of%it the%lot
    call ring phone
    cheap affordable inexpensive low-cost
    """

SYNONYMS = {
    words[0].replace("%", " "): tuple(word.replace("%", " ") for word in words)
    for words in map(str.split, _SYNONYMS.strip().splitlines())
}
