"""The errands people come with, second half: what went wrong, money, and special needs.

The same six turns an errand as in errands.py.
"""

# ruff: noqa: E501 - an alternative is one line, or its brackets cannot be read
GRIEVANCES = {
    "bag.open": """
        <hi> my (suitcase|bag|luggage|backpack) (did not arrive|never came out|is missing|got lost) (in <to>|on <flight>|after <flight> from <from>)<tail>
        <hi> (where is|any news of|i'm still waiting for) my (suitcase|bag|luggage), (tag|file) <tag>, (lost|missing) since <date><tail>
        <hi> (i (landed|arrived)|we landed) in <to> (at <time>|on <day>) without (our|my) <bag>, (it's for <reason>|i have nothing to wear|the desk was closed)
        """,
    "bag.ask": """
        <sorry>. (what does (it|the bag) look like|can you describe (it|the bag)|what (colour|size|make) is it), and (what is|do you have) the tag number?
        (which|what) address (in <to>|at your hotel) (should|can) we (send|deliver) it to(, <first>|), and (what is inside|until when are you there)?
        """,
    "bag.tell": """
        (it's|it is|a) <bag> (with (a red ribbon|a broken wheel|stickers|a name tag|a blue strap)|), (tag|number) <tag>(, about <kilos> kilos|)<tail>
        (deliver it to|i'm staying at|we are at) (the <hotel> hotel|my hotel|a flat) in <to> until <date2>, (medicine|a suit|our gifts|my laptop) (is|are) inside
        """,
    "bag.offer": """
        (the tracer|our system|the station) (shows|says) (it|<tag>|your bag) (is still in <from>|was sent to <city>|is on <flight2>), (arriving|delivery) (<date2>|<day2> at <time2>).
        (please|you can) buy (what you need|clothes|toiletries) (for|up to) <fee> (a day|in total) and (keep|send us) the receipts (with|under) case <case>.
        """,
    "bag.react": """
        (<city>|<from>)? (how (did it get|is that possible)|unbelievable|oh no), (and when|so when) (do i|will i|does <companion>) get (it|the <bag>)<tail>
        (ok|fine|good), (call|text|mail) me (when it (lands|comes)|before <time2>|at <email>), i (need|leave) (it|<to>) by <date2>
        """,
    "bag.done": """
        (the file|case|your report) <case> is open for (bag|tag) <tag>, (we|the courier) will (deliver|bring it) to (the <hotel> hotel|your address) by <date2>.
        """,
    "damage.open": """
        <hi> my <bag> (came out|arrived|came back) (with a (broken wheel|hole|cracked shell|torn strap|missing handle)|soaking wet|open) (from <flight>|in <to>)<tail>
        <hi> <want> (report|claim for) a (damaged|broken) (suitcase|stroller|bike|wheelchair|guitar) after <trip><tail>
        """,
    "damage.ask": """
        <sorry>. (do you have|could you send) (photos|a receipt|the report from the desk) (and|with) the tag number(, and how old (is it|was it)|)?
        """,
    "damage.tell": """
        (i bought it|it was bought|it's) (in <month> for <price>|<terminal> years ago, cost <price>|brand new, <price>), (photos (are attached|follow)|tag <tag>)<tail>
        """,
    "damage.offer": """
        (we (can repair|replace) it|you may choose a repair|i can offer) (free of charge|up to <sum>|or a voucher of <sum>), (file|case|claim) <case>.
        """,
    "damage.react": """
        (repair it|a new one|the voucher|money) (is fine|please|would be better), (but|and) (i need it|before) (for <reason>|by <date2>|<date2>)<tail>
        <sum> (for|against) a (bag|suitcase) (worth|of) <price>? (come on|i don't think so|that covers half|ok then)<tail>
        """,
    "damage.done": """
        (claim|case) <case> is (settled|filed): <sum> (goes|will go) to (the card ending in <last4>|<name>) (by <date2>|within <nights> days).
        """,
    "delay.open": """
        <hi> <flight> (from <from>|to <to>|on <date>) was (<hours> hours|<minutes> minutes|a whole day) late and (i missed <reason>|we missed our connection|nobody told us)<tail>
        <hi> <want> (claim|ask for|get) (compensation|my money|<sum>) for the (delay|cancellation|late arrival) of <trip><tail>
        <hi> (why is <flight> (delayed|late|not boarding)|when does <flight> leave|will <flight> ever leave)? (the board|the app|the gate) (says|shows) <time2> (now|instead of <time>)<tail>
        """,
    "delay.ask": """
        <sorry>. (how late did you|at what time did you) (arrive|land|reach the gate) in <to>(, and was it <flight>|, <first>|)?
        (were you (given|offered)|did you (get|have)) (food|a hotel|a voucher|another flight) (in <from>|during the wait), and (do you have|did you keep) receipts?
        """,
    "delay.tell": """
        (we (landed|arrived)|i (landed|got there)) at <time2> (instead of|not) <time>, (that's <hours> hours|<minutes> minutes late), (no food|no hotel|no information|i paid a taxi for <fee>)<tail>
        (i had to|we had to) (pay|spend) <fee> (for (a hotel|a taxi|dinner|a new train)) (in <from>|in <to>) (with <companion>|)<tail>
        """,
    "delay.offer": """
        (the reason was|it was due to|we had) (a strike|a storm|fog|a technical fault|a missing crew|a bird strike) (in <from>|in <city>), (so you get|you are entitled to|i can offer) <sum>.
        (for delays over <hours> hours|under the rules|for this distance) (you receive|we pay|the law gives) <sum> (per passenger|in cash|or a voucher of <price>), case <case>.
        """,
    "delay.react": """
        (a (strike|storm|fault) is not my problem|other airlines flew|that's not what the captain said), i want <sum> and (the taxi|my hotel) of <fee> (back|paid)<tail>
        (ok|good|fair|thank you), (pay it|transfer it|send it) to (the card ending in <last4>|my account), (when|how long) (will it take|do i wait)?
        """,
    "delay.done": """
        (case|claim|file) <case> is (accepted|approved|open): <sum> for <name> (will arrive|is paid) (by <date2>|within <nights> days).
        """,
    "refund.open": """
        <hi> (i'm still waiting|we still wait|where is|any news) (for|about) (my|the) refund of <price> for <trip>(, cancelled (on <date2>|in <month>)|)<tail>
        <hi> (i was charged|you took|my card shows) (twice|<price> instead of <sum>|<fee> too much) for <trip><tail>
        """,
    "refund.ask": """
        <sorry>. (when (was it cancelled|did you cancel)|which card did you use|what does your bank say), and (is it|was it) <price> (in total|each)?
        """,
    "refund.tell": """
        (i cancelled|it was cancelled) (on <date2>|<nights> weeks ago), paid (by card ending in <last4>|through an agency|with a voucher), (nothing|no money|only <fee>) (came|arrived|so far)<tail>
        """,
    "refund.offer": """
        (i see|our bank shows|accounting confirms) (the refund|<sum>|a payment) (was sent|went out|is pending) on <date2>, (it takes|please allow) <nights> (working days|days).
        (i have (pushed|restarted)|let me restart) the (payment|refund) of <sum> (to the card ending in <last4>|under case <case>)(, <first>|).
        """,
    "refund.react": """
        (<nights> days (more|again)|not (a voucher|credit)|that's what (they|<agent>) said (last week|in <month>)), i (need|want) <sum> (before <reason>|by <date2>)<tail>
        """,
    "refund.done": """
        (the refund of|) <sum> (is|has been) (released|sent) (to the card ending in <last4>|for <code>), (reference|case) <case>, (expect|it arrives by) <date2>.
        """,
    "assist.open": """
        <hi> (<companion> (needs|will need)|i need|i will need) (a wheelchair|help at boarding|a ramp|someone at the gate|oxygen|a sign language guide) (for|on) <trip><tail>
        <hi> (can|is it safe that|may) (i|<companion>) fly (after (an operation|surgery|a stroke)|with a (cast|pacemaker)|<terminal> months pregnant) on <trip>?
        """,
    "assist.ask": """
        <sure>. (can the passenger (walk|climb stairs)|how far can you walk|is it your own wheelchair), and (does the battery|what does it) weigh (over <kilos> kilos|)?
        """,
    "assist.tell": """
        (short distances|only a few steps|not at all|yes but no stairs), (the chair|it) (weighs <kilos> kilos|is electric|folds), and <companion> (travels too|comes along|stays in <from>)<tail>
        """,
    "assist.offer": """
        (a colleague|our team|somebody) (will meet|meets|waits for) (you|the passenger) at (the help desk|door <terminal>|gate <gate>|the train station) in <from> at <time2>.
        """,
    "assist.react": """
        (very good|wonderful|ok|thank you), (and in <to>|what about <to>|also on <date2>)? (the way to the taxi|the bus|customs) is (long|far|hard for <companion>)<tail>
        """,
    "assist.done": """
        (assistance|the wheelchair|help) is (booked|arranged|noted) for <name> on <flight>, (please arrive|come|be there) <minutes> minutes (before|early).
        """,
    "pet.open": """
        <hi> <want> (take|bring|fly with) (my|our) <animal> (in the cabin|in the hold|) on <trip><tail>
        <hi> (how much|what do i need|is there room) (for|to bring) (a|an old|a small|my) <animal> (of <kilos> kilos|) to <to> <when>?
        """,
    "pet.ask": """
        (how (heavy|big)|what weight) is the <animal> (with the (box|carrier)|), and (does it have|is there) (a chip|a passport|a rabies shot)?
        """,
    "pet.tell": """
        (about|around|roughly) <kilos> kilos (with|in) (the bag|a box|a carrier), (vaccinated|chipped|very quiet|a bit nervous), (his|her) name is <petname><tail>
        """,
    "pet.offer": """
        (up to|under) <kilos> kilos (it may stay in the cabin|the cabin is fine) for <fee>, (<flight>|the flight) (still has|has) (one|two) (pet places|places) (on <date>|).
        """,
    "pet.react": """
        (<petname>|he|she) (won't like|hates) the hold, (can (she|he)|is there a way to) sit (with me|under <seatno>|next to <companion>)<tail>
        (ok|great), (book|reserve) (the place|it) for <petname>, (i pay|is it) <fee> (each way|in total|at the airport)?
        """,
    "pet.done": """
        <petname> is (booked|on the list|registered) for <flight> (under <code>|with <name>), bring the (papers|passport|certificate) to desk <terminal>.
        """,
    "checkin.open": """
        <hi> (i can't|it won't let me|i'm not able to) (check in|get my boarding pass|add my passport) (for|on) <trip>, (error <last4>|it says not found)<tail>
        <hi> the (app|website|machine) (says|thinks) (seat <seatno> is taken|i'm not on the list|i need a visa) (for|on) <trip><tail>
        """,
    "checkin.ask": """
        <sorry>. (what (exactly|error) do you see|which page are you on|did you try the app) (for <code>|for <flight>), and is your passport (valid|the same)?
        """,
    "checkin.tell": """
        (it says|i get|it shows) (error <last4>|please see an agent|booking not found) (after|when) i (type|enter) (<code>|my passport|<email>)<tail>
        """,
    "checkin.offer": """
        (i (checked you in|did it) from here|let me do it from here|i have reset it): seat <seatno2>, (group <terminal>|gate <gate>|boarding at <time2>).
        """,
    "checkin.react": """
        (now it works|i see it now|got it|still nothing|same error), (but|and) <companion> is (in <seatno>|not checked in|missing) (on <flight>|)<tail>
        """,
    "checkin.done": """
        (the boarding pass|both passes|your pass) for <flight> (was sent|went|is on its way) to <email>, seat <seatno2>, (gate <gate>|boarding <time2>).
        """,
    "invoice.open": """
        <hi> <want> (get|have) (an invoice|a receipt|a corrected bill) for <trip> (with (vat|my company's name|tax number <tag>)|of <price>|)<tail>
        <hi> <you> send (the invoice|a receipt) (of|for) <price> (for <trip>|of <date>) to (<email>|my accountant)?
        """,
    "invoice.ask": """
        <sure>. (which company|what name|what address) (should|shall) (it|the invoice) (show|be made out to), and (is it|was it) <price> (with tax|in all)?
        """,
    "invoice.tell": """
        (to|make it out to|the company is) <company>, (tax number|vat) <tag>, (<from>|the <from> office), (cost centre <last4>|for <reason>)<tail>
        """,
    "invoice.offer": """
        (invoice|document) <case> (over|of|for) <price> is (ready|made|corrected), (shall i|i can) (mail|send) it (to <email>|now)(, <first>|)?
        """,
    "invoice.react": """
        (it (still says|shows)|there it says) <sum>, (but|and) i paid <price> (with seat and bag|on <date2>|for <who>)<tail>
        """,
    "invoice.done": """
        (invoice|the receipt) <case> (for <company>|for <name>|over <price>) (was sent|is on its way) to <email>.
        """,
    "points.open": """
        <hi> (my|the) (points|miles) (for|from) <trip> (are missing|were not added|have vanished), (card|member) number <card><tail>
        <hi> how many (points|miles) (do i need|does it take) (for|to get) (a flight to <to>|<tier> status|<seatwish>) (by <month>|)?
        """,
    "points.ask": """
        <sure>. (what is your (card|member) number|was the card in the booking|which flight was it), (and do you have the boarding pass|and on which date), <first>?
        """,
    "points.tell": """
        (card|number|it's) <card>, (<flight> on <date>|seat <seatno>|i have the pass), (should be|i expected|worth) <points> points<tail>
        """,
    "points.offer": """
        (i have added|i can add|you will get) <points> points (for <flight>|to <card>), (that makes|you are now at|only <last4> short of) (<tier>|<points2> in all).
        """,
    "points.react": """
        (only|just) <points>? (last year|in <month>|before) it was <points2> (for <to>|on the same flight)<tail>
        (great|nice), (do they expire|can <companion> use them|is that enough for <to>) (before|in|by) <month>?
        """,
    "points.done": """
        (account|card) <card> (of <name>|) (now shows|has) <points2> points, (valid until|next check in) <month>.
        """,
    "child.open": """
        <hi> (my|our) (daughter|son|niece|nephew|grandson) (<age>|is <age>,|aged <age>) (flies|will fly|is flying) alone (on|from <from> to <to> on) <date><tail>
        <hi> (do i need|can we bring|is there) (a cot|a car seat|a baby meal|a stroller|milk) for (a|our) <age> (month|year) old on <trip>?
        """,
    "child.ask": """
        <sure>. (who (brings|picks up)|which adult meets) the child in (<from>|<to>), and (what is their phone|how old exactly)?
        """,
    "child.tell": """
        (<companion>|an aunt|her grandfather|his godmother) (picks|will pick) (her|him) up in <to>, <age> years old, (shy|first flight|allergic to nuts|flew before)<tail>
        """,
    "child.offer": """
        (the service|a companion|the cot) (costs|is) <fee> (each way|for <flight>), (our crew|somebody) (sits with|meets) the child at (gate <gate>|<time2>|row <nights>).
        """,
    "child.react": """
        (ok|good|fine), (and if <flight> is late|can i wait at the gate|who calls me at <time2>)? (she|he) has <seatno> (alone|) and a (phone|teddy|<meal> meal)
        """,
    "child.done": """
        (the form|everything) for the child is (ready|in <code>), (print|sign) it and (be|come) at desk <terminal> at <time2>(, <name>|).
        """,
    "extra.open": """
        <hi> <want> (add|buy|bring) (an extra bag|a second suitcase|a bike|golf clubs|a surfboard|skis|<kilos> kilos more) (to|for) <trip><tail>
        <hi> (my suitcase|the bag) (is|weighs) <kilos> kilos, (what does it cost|is that ok|do i pay extra) (on|for) <trip>?
        """,
    "extra.ask": """
        <sure>. (how (heavy|long|big) is it|what are the measures|how many pieces), and (only to <to>|both ways|on <flight> too)?
        """,
    "extra.tell": """
        (around|about|exactly) <kilos> kilos and <minutes> (cm|centimetres) (long|wide|), (both ways|only there|just on <flight>)<tail>
        """,
    "extra.offer": """
        (online|here|now) it (is|costs) <fee>, at the airport <sum>, (up to <kilos> kilos|for one piece)(, shall i add it|, do you want it), <first>?
        """,
    "extra.react": """
        (add it|ok add (one|two)|yes), (charge|pay with) the card ending in <last4>, (and|also) (does|will) it (fit|go) on <flight>?
        <fee>? (the ticket was only|i paid) <price>, (i'd rather (post it|leave it)|can <companion> carry it)<tail>
        """,
    "extra.done": """
        (one|the) (bag|piece) of <kilos> kilos is (added|booked) (to <code>|on <flight>) for <fee>, (drop it|hand it in) at desk <terminal>.
        """,
}

# How often each errand is the reason of a dialogue, before a customer's own habits shift it.
FREQUENCY = {
    "change": 13.0,
    "delay": 11.0,
    "book": 10.0,
    "bag": 9.0,
    "refund": 8.0,
    "cancel": 8.0,
    "seat": 7.0,
    "checkin": 6.0,
    "extra": 5.0,
    "points": 4.0,
    "invoice": 4.0,
    "upgrade": 3.0,
    "meal": 3.0,
    "assist": 2.5,
    "child": 2.5,
    "pet": 2.0,
    "damage": 2.0,
    "name": 2.0,
}
