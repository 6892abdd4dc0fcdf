"""What everybody says at the airline's help desk, whatever the errand: greetings, names and codes, side talk, goodbyes.

Written in lower case; airline.py capitalises for those who care. Rows that start with `agent.` or `customer.` are whole
turns, the others are pieces of them. See grammar.py for the notation.
"""

TONES = ("plain", "terse", "polite", "chatty", "upset")

# ruff: noqa: E501 - an alternative is one line, or its brackets cannot be read
PIECES = {
    "hi.plain": """
        hi,
        hello,
        (hey|hi|hello) there,
        good (morning|afternoon|evening),
        """,
    "hi.terse": "(|hi|hey|hello|question:|quick one:)",
    "hi.polite": """
        (good (morning|afternoon|evening)|hello), (i hope you are well|i hope you can help me),
        (dear (team|Kestrel team|customer service)|good day),
        hello and thank you for (being there|your time|taking my chat),
        """,
    "hi.chatty": """
        (hi|hey|hello) (there|again|everyone)(!|), (it's me again|long time no see|quick question|hope your day is going well),
        (hiya|heya|oh hi), (so|well|okay so|right),
        (so|okay|well|right), (funny story|bear with me|here goes|where do i start),
        """,
    "hi.upset": """
        (hello|hi|listen|look)(?|,) (this is the (second|third|fourth) time (i write|i'm asking)|nobody (answers|picks up) the phone),
        (seriously|honestly|again|unbelievable),
        (i have been waiting|i've been on hold) for (<hours> hours|ages|days),
        """,
    "want.plain": "(i'd like to|i want to|i need to|i would like to|i'm trying to)",
    "want.terse": "(need to|want to|have to|trying to|gotta|must)",
    "want.polite": "(i would like to|i was hoping to|i would be grateful to|i would love to|i wish to)",
    "want.chatty": "(i kind of need to|i was thinking i could|i'd really love to|we decided to|i was wondering if i could)",
    "want.upset": "(i still need to|i urgently need to|i want to|i demand to|i've been trying to)",
    "you.plain": "(can you|could you|would you|are you able to|please can you)",
    "you.terse": "(can you|pls|please|can u|could you)",
    "you.polite": "(could you please|would you be so kind as to|may i ask you to|would you kindly|might you be able to)",
    "you.chatty": "(any chance you could|could you maybe|do you think you can|would you be a star and|can you possibly)",
    "you.upset": "(can someone finally|when will you|why can't you just|can you please just|will anybody)",
    "tail.plain": "(|, thanks|, please|. thank you|, is that possible|, if possible)",
    "tail.terse": "(||, thx|, asap|. thanks|, urgent)",
    "tail.polite": """
        , (thank you (so much|very much|in advance)|many thanks|i would really appreciate it|with kind regards)
        , if (it is not too much trouble|that is all right|you don't mind)
        """,
    "tail.chatty": """
        (|, haha|, fingers crossed|, sorry for the long message|, no rush though)
        , (<companion> will be so happy|it's for <reason> you know|my own fault really|i'm hopeless with websites)
        """,
    "tail.upset": """
        , (this is (ridiculous|unacceptable|a joke)|i'm (very|really|so) (disappointed|annoyed|tired of this))
        , (never again|i want an answer today|i will tell everybody|or i'll (complain to the regulator|go to the press))
        """,
    "trip": """
        (my|the|our) (flight|trip) (to <to>|from <from> to <to>|to <to> on <date>|<flight>|<flight> on <day>)
        (flight <flight>|<flight>) (to <to>|from <from>|on <date>|on <day>|<from> - <to>)
        (my|the) (outbound|return|connecting) flight (to <to>|on <date>|<flight>)
        (my|our) <nights> (night|day) (stay|trip|visit) (in|to) <to> (for <reason>|with <companion>|)
        """,
    "when": "(on <date>|on <day>|<day> at <time>|on <date> at <time>|next <day>|<day> (morning|evening|night))",
    "who": "(<companion> and me|me and <companion>|<companion>|the (two|three|four) of us|me|all of us|both of us)",
    "because": """
        (|because of <reason>|it's for <reason>|since <companion> (fell ill|can't come|broke an ankle|has to work))
        because (my plans changed|of <reason>|work got in the way|the (hotel|train|meeting) was (moved|cancelled))
        """,
    "sorry": """
        (i'm (so|very|really) sorry (about|to hear about) (that|this)|(my|our) (sincere|deepest|honest|full|) (apologies|regrets) for (that|the trouble|the wait|the confusion|this experience|the bad news))
        (i understand|i can see) (how (annoying|stressful|frustrating) (that|this) (is|must be)|why you are upset)
        """,
    "sure": "(of course|certainly|sure|no worries|absolutely|gladly|with pleasure|right away|let me see)(, <first>|)",
    "check": """
        (let me|i will|i'll) (check|look into|look up|open) (that|this|your booking|the (file|details)) (for you|right now|now)
        """,
}

SHARED = {
    "agent.identify": """
        <sure>, (could you (please|) (give me|type|send)|may i have|can i (get|have|see)) (your|the) (full name|name) and (the|your) booking (code|reference)?
        <sorry>. (what is|could you tell me|please send me) your (full name|name) and (the|your) (six character|) (booking code|code)?
        (hello|hi|welcome), (you are talking to|this is|my name is) <agent>. (may i have|please type) your (full name|name) and booking (code|reference)?
        (thanks|thank you) for (writing|contacting us|the details). (which name|what name) and (code|reference) (is|was) the <to> trip booked under?
        <sure>. to open the booking i need (your|the passenger's) (name and surname|full name) (and the (code|reference)|as well as the code).
        """,
    "customer.identify": """
        (my name is|i'm|it's|this is|the name is) <name>(,| and) (my|the) (booking code|code|reference|booking) is <code>
        <name>, (booking|code|reference|booking code) <code>(, (flying|going) (to <to>|from <from>)|)
        (sure|of course|yes|ok|okay), (it's <name>|<name> here|the name is <name>) (and|with) (code|reference|booking) <code>
        (the booking|it) is under <name>, (code|reference) <code>, (my|the) (e-mail|mail|email) is <email>
        <code>(,| for|, passenger|, booked by) <name>(, <email>|, (flight <flight>|<date>)|)<tail>
        (here you go|there you go|alright|yes): <name>, <code>, (<from> to <to>|leaving <date>|flight <flight>|<tier> member)
        """,
    "agent.found": """
        (thank you|thanks|great), <name>, i (see|found|have) (your|the) booking <code> (from <from> to <to>|to <to> on <date>|for <date>).
        (thank you|perfect|got it|thanks), <first>. (i have|i can see) <flight> (to <to>|on <date>|at <time>) (in front of me|here|on my screen).
        <first>, (i found|here it is:|i have opened) (the booking|booking|reservation) <code>, <from> to <to>, (<date>|departing <time>|seat <seatno>).
        (welcome back|hello|good to see you again), <name>. (as a <tier> member you have priority|i see you fly with us often), <check>.
        (thanks|thank you), (the reservation|booking) <code> is (confirmed|active|ticketed) for <name>(, paid <price>|, seat <seatno>|).
        """,
    "agent.hold": """
        (one|just a) (moment|minute|second)(, please|), <check>.
        (please|kindly) (bear with me|hold on|give me) (a minute|two minutes|a moment) while i (check|look at) (the <to> flight|this|it).
        """,
    "customer.wait": """
        (ok|okay|sure|fine|alright), (take your time|i'll wait|i can wait|no rush), (i'm (on the train|at work|at home|at the gate)|flight is only <date>)
        <you> (hurry|be quick)? (my (battery|phone) is (dying|at <kilos> percent)|boarding (starts|is) at <time>|i'm (already|) at gate <gate>)
        (are you still there|hello|anyone there)? (my|the) <to> (flight|plane) (leaves|is) (at <time>|on <day>)<tail>
        """,
    "agent.wait": """
        (thank you|thanks) for (waiting|your patience|holding)(, <first>|). (the system|our computer|it) is (slow|a bit slow) (today|this <day>).
        (still here|i am still with you|i'm here)(, <first>|), (i (am waiting|wait) for|i asked) (the (airport|station|team) in <to>|my supervisor|ticketing).
        """,
    "customer.price": """
        (how much (is|would be)|what would be|what's) the (total|price|difference|extra cost) (for <who>|if (i|we) (go|fly) <when>)<tail>
        (do i have|will i have|is there anything) to pay (extra|again|on top) (for (the|) <flight>|if it's <when>)? (i already paid|it was already) <price>
        (<fee> (seems|is|sounds) (a lot|too much|quite steep|ok)|why is it <fee>), (your website|the app|another airline|my agency) (says|said|quotes) <price>
        """,
    "agent.price": """
        (the (total|fee|difference)|it) (is|comes to|would be) <fee>(, (taxes|everything) included| per person|), (payable|charged) (by card|to the card ending in <last4>).
        (for|as) <tier> (customers|members) (it is free|there is no fee|we waive the fee), (otherwise|normally) (it|that) (is|costs) <fee>.
        (i can (offer|give) you|we have) <fee> (instead of|rather than|down from) <price> (until (<day>|<date>)|if you (confirm|pay) (now|today)).
        """,
    "customer.side": """
        (by the way|also|one more thing|btw|and), (is there|do you have|will there be) (wifi|a power socket|hot food|a film|coffee) on (<flight>|the <time> flight|the plane to <to>)?
        (and|also), (how (early|long before)|when) (should|must) (i|we) be at the airport in <from> (for <flight>|on <day>|with <companion>)?
        (can|could|may) (i|we) (bring|take|carry) (a stroller|a guitar|<kilos> kilos|a cake|my medicine|a laptop and a bag|skis) (on board|as hand luggage|in the cabin) to <to>?
        (is|will) (<flight>|the <time> flight|the flight to <to>) (be|going to be) (on time|full|delayed)( <when>|)<tail>
        (which|what) (terminal|gate) (is it|do i need|does <flight> leave from) (in <from>|in <to>|on <date>)?
        (do|will) (i|we) need (a visa|a passport|a vaccination|a transit permit) (for|in|to enter) <to>, (i'm|we're) (travelling|going) (with <companion>|for <reason>)?
        """,
    "agent.side": """
        (yes|sure|indeed), (there is|we have|you will find) (wifi|power at every seat|a hot meal|a snack|free coffee) on (<flight>|all flights to <to>|board)(, (from|for) <fee>|).
        (please|i recommend to|you should) be (at the airport|there|at the gate) (<minutes> minutes|two hours|three hours) before (<time>|departure|take-off) (in <from>|).
        (one (bag|piece) of (up to|) <kilos> kilos|one small bag|a coat or a blanket) is (allowed|free|included) (in the cabin|in your fare|on board), (more|anything heavier) costs <fee>.
        (<flight>|the flight) (leaves|departs) from terminal <terminal>(, gate <gate>|), (on time|as planned) at <time> (so far|at the moment|).
        (for <to>|there) you (only|) need (a valid passport|an identity card|an online permit), (please|do) check (the embassy's page|your (visa|documents)) (before <date>|in time).
        """,
    "customer.grumble": """
        (last (time|year|month)|in <month>) (i|we) (had|got) (the same problem|no help at all|a delay of <hours> hours|a cold meal) (on the way to|in|flying to) <to><tail>
        (i (booked|paid) <price>|i've been a <tier> member for <nights> years|i fly to <to> every month) and (this is how you treat me|nobody cares|nothing works)<tail>
        (the app|your website|the chat bot|the machine in <from>) (keeps crashing|shows an error|says error <last4>|does not accept <email>)<tail>
        """,
    "agent.grumble": """
        <sorry>, <first>. (i will|let me) (make a note|write that down|pass it on) (in <code>|for the team in <to>|to my manager).
        (thank you|thanks) for (telling us|your (honesty|patience|loyalty))(, <first>|), as a (gesture|small apology) i (add|have added) (<points> points|a voucher of <fee>).
        <sorry>. (please try|could you try) (another browser|the app|again (after <time>|in <minutes> minutes))(, or i (do|can do) it (for you|from here)|).
        """,
    "customer.bye": """
        (great|perfect|super|ok|okay|good|fine), (thanks|thank you|cheers) (for (your help|the help|sorting out <trip>)|, that's all (for <to>|for today))
        (thank you|thanks)( so much|, <agent>|), (i'm|we're) (looking forward to <to>|glad <trip> is (settled|fine)|relieved about <trip>)
        (that's (all|everything)|nothing else), (have a (nice|good|lovely) (day|evening|<day>)|bye for now|see you (on <flight>|<when>|in <to>))
        (ok|fine|alright), (i'll|i will) (wait for the (mail|e-mail) (at|to) <email>|tell <companion>|see you <when>|check the app (on <day>|later))<tail>
        """,
    "customer.bye_upset": """
        (fine|ok|finally|whatever), (but|though) (i (expect|want) (a reply|an answer|the money) by <date>|next time i (fly|go) to <to> with somebody else)
        (well|ok), (at least|i guess) <trip> is (sorted|settled|not lost)(, but <hours> hours of my life are gone|, no thanks to you)
        """,
    "agent.bye": """
        (you're welcome|my pleasure|any time|gladly|happy to help)(, <first>|), (have a (good|pleasant|safe) (flight|trip) to <to>|enjoy (<to>|your trip (with <companion>|)|the view)).
        (thank you|thanks) for (flying with|choosing) Kestrel Air(, <name>|, <first>|)(. (see you on board|goodbye|have a nice <day>)|).
        (is there anything else|anything else) i can do (for you|about <code>|for the <to> trip)(, <first>|)?
        (a confirmation|the confirmation|a copy of this chat) (is on its way|was sent|goes) to (you|your phone|your inbox|<email>)(, have a nice (day|evening|<day>)|).
        """,
}
