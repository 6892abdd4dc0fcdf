"""The errands people come with, first half: everything about planning a trip.

Five turns an errand: `open` (customer), `ask` (agent), `tell` (customer), `offer` (agent), `react` (customer), and
`done` (agent). Second half: grievances.py. See grammar.py for the notation.
"""

# ruff: noqa: E501 - an alternative is one line, or its brackets cannot be read
ERRANDS = {
    "book.open": """
        <hi> <want> (book|reserve|get) (a flight|tickets|a seat|two seats|a return) (from <from>|) to <to> (for <who>|) <when><tail>
        <hi> (do you have|are there|is there) (anything|any flights|a cheap flight|seats left) to <to> (around|on|before|after) <date> (for <who>|under <price>|)?
        <hi> (we are|i am|i'm) (planning|organising) (<reason>|a trip) in <to> and (need|want) to fly (with <companion>|from <from>) <when>
        <hi> how much (is|does it cost for|would be) a (ticket|return ticket|one-way ticket) to <to> <when><tail>
        """,
    "book.ask": """
        <sure>. (would you (like|prefer)|do you want) (a direct flight|one way or return|flexible or basic fare|to leave in the morning) (to <to>|on <date>)?
        <to> (is|sounds) (lovely|nice|a good choice) in <month>. (how many (passengers|people|bags)|who) (is|are) (travelling|coming) (with you|from <from>)?
        (what|which) (date|day|time) would you (like|prefer) to (come back|return) (to <from>|from <to>)(, and with how many bags|)?
        """,
    "book.tell": """
        (it's for|for|we are) <who>, (one way|return|coming back) (<when>|after <nights> (days|nights)), (with <kilos> kilos of luggage|hand luggage only)
        (the cheapest|a direct one|a flexible fare|the earliest|something after <time>) (is (fine|best)|please|would be great), i (always|usually) (take|sit in|like) <seatwish>
        (return|we come back|i fly back) <when>, (and|also) <seatwish> and (a|the) <meal> meal (if you can|please|)<tail>
        """,
    "book.offer": """
        (there is|i have|i found|we have) (<flight>|flight <flight>) <when> (at|for) <price>(, <last4> miles included|, (one bag|seat <seatno>) included|).
        (the (cheapest|fastest|best) option|the only direct flight) is <flight> (at <time>|on <date>), arriving in <to> at <time2>, for <price>.
        (i can hold|shall i hold|i could reserve) (seat <seatno>|<flight>|this fare of <price>) (until <time2>|until <day>|for <hours> hours)(, <first>|)?
        """,
    "book.react": """
        (yes|ok|great|perfect), (book it|i take it|go ahead|let's do that), (pay with the card ending in <last4>|send the bill to <email>|<price> is fine)
        (hmm|oh|well), <price> is (more than i (wanted|hoped)|too much|over my budget), (anything|is there something) (cheaper|later|on <day>|from <city>)?
        (and|what about) (the (evening|early|<time2>) (one|flight)|a stop in <city>|flying from <city>) (<when>|with <companion>)?
        """,
    "book.done": """
        (it's|your trip is|all) (booked|confirmed|done), <name>: <flight> on <date>, (your code|the booking code|the reference) is <code>.
        (the ticket|your ticket) to <to> (is|has been) (issued|sent) to <email>, (code|reference) <code>, (total|paid) <price>.
        """,
    "change.open": """
        <hi> <want> (change|move|rebook|push back|shift) <trip> to <date2> <because><tail>
        <hi> (is it|would it be) (possible|ok) to (change|move|swap) (the date|the time|the destination) of <trip> <because>?
        <hi> (something came up|my plans changed|<companion> can't make it), <you> (move|put) (me|us) (on|to) (an earlier|a later|the <time2>) flight (on <date>|to <to>)?
        <hi> (i'm|we're) (stuck in (traffic|<city>)|running late) and will miss <flight>, <you> (rebook|change) it (to <time2>|to <date2>|)<tail>
        """,
    "change.ask": """
        (which|what) (new date|day|flight) (would suit you|do you prefer|works best)(, <first>|), (before or after <date>|morning or evening)?
        <sure>. (do you want|shall i) (to move|move) (only the outbound|both flights|the return) (of <code>|to <to>|from <to>)?
        (your fare|the ticket|a basic fare) (allows|permits) (changes|one change) (for <fee>|until <date>). (which (day|time)|when) would you like to (fly|leave)?
        """,
    "change.tell": """
        (<date2>|<day2>|the <date2>) (would be|is) (best|perfect|ideal)(, (after|before|around) <time2>|), (same|and) (class|seat|<seatwish>) (please|if you can|)
        (only|just) (the return|the outbound|the flight back from <to>), (to|maybe) (<day2>|<date2>|the day after) (because of <reason>|)<tail>
        (anything|any flight) (between <time> and <time2>|before <date2>|on <day2>) (works|is ok|will do), (even|also) (via <city>|from <city>)
        """,
    "change.offer": """
        (on <date2>|on <day2>|for that day) (i see|there is|i have) <flight2> at <time2> (with|for) (a difference of|an extra|) <fee>.
        (the (earlier|later|morning|evening) flight|<flight2>) (is full|has two seats left|has room), (i could offer|what about) (<time2>|<date2>|a stop in <city>)?
        (changing|moving) (to <flight2>|<code>) (costs|would cost|is) <fee> (plus the fare difference|in total|per person)(, shall i go on|, do you agree)?
        """,
    "change.react": """
        (ok|yes|fine|great), (change it|do it|go ahead|take <flight2>), (but|and) (keep|please keep) (<seatwish>|the <meal> meal|seat <seatno>)<tail>
        <fee> (just|only) (to move|for moving) (a date|one flight|<trip>)? (that's (a lot|crazy|not what i was told)|my ticket said free changes)<tail>
        (could|can) (i|we) (think about it|decide|tell you) (until <day>|by <time>|tonight)? (i must|i have to) ask <companion> (first|about <reason>)
        """,
    "change.done": """
        (done|all set|it is changed), <first>: (you (now fly|are now) on <flight2>|<code> is now) (on <date2>|at <time2>)(, seat <seatno2>|).
        (i have moved|i moved) (booking|reservation) <code> to <date2>, the new (ticket|itinerary) (goes|was sent) to <email>.
        """,
    "cancel.open": """
        <hi> <want> (cancel|call off) <trip> <because><tail>
        <hi> <companion> (is in hospital|got covid|is sick|passed away), (so|and) (i|we) (must|have to) cancel <trip><tail>
        <hi> what (happens|do i lose|is the fee) if (i|we) cancel <trip> (today|before <date>|now)?
        """,
    "cancel.ask": """
        <sure>. (do you want|would you like) (to cancel|) (the whole booking|only one passenger|just the return) (for|of) (<code>|<to>|<date>)?
        <sorry>. (would you (rather|prefer to) (have a voucher|move the trip)|have you considered (a voucher|a later date)) (of <price>|instead), <first>?
        """,
    "cancel.tell": """
        (the whole (thing|booking)|everything|both ways|all passengers|only <companion>), (we are|i am) not (going|flying) to <to> (any more|at all|this year)<tail>
        (just|only) the (return|outbound|<flight>) (on <date>|on <day>), (the rest|the other flight) (stays|is fine)(, i (come|go) back by train|)<tail>
        i have (a doctor's note|insurance|the flexible fare|a certificate), (where do i send it|does that (help|count)|i paid <price> for it)?
        """,
    "cancel.offer": """
        (cancelling|a cancellation) (today|before <date>) (costs|means a fee of) <fee>, (you get|so we return) <sum> (of the <price>|to your card|as a voucher).
        (the (basic|light|promo) fare|your ticket) is not refundable, (but|however) (the taxes of <sum>|airport fees of <fee>) (can be|are) (returned|paid back).
        """,
    "cancel.react": """
        (only|just) <sum> (back|of <price>)? (that's|this is) (not fair|nothing|better than nothing|ok i suppose)<tail>
        (ok|yes|fine|alright), cancel (it|everything|<code>) (and|but) (send|put) the (money|rest) (on the card ending in <last4>|back (before|by) <date2>)
        """,
    "cancel.done": """
        (booking|reservation) <code> (is|has been) cancelled, <sum> (will be|is being) (returned|refunded) (by <date2>|within <nights> days).
        (it's|your trip to <to> is) cancelled(, <name>|, <first>|), (a mail|the confirmation) (went|was sent) to <email>.
        """,
    "seat.open": """
        <hi> <want> (choose|pick|change|get) <seatwish> on <trip><tail>
        <hi> (<who> (were|was)|we are|i was) (put|seated) in <seatno>, (but|and) (i (paid|asked) for|we need) <seatwish> (on <flight>|to <to>)<tail>
        <hi> <you> (seat|put) <companion> (next to me|near <seatno>|beside me) on <trip>?
        """,
    "seat.ask": """
        (would|do) you (prefer|like) (the front|a window|an aisle|row <nights>) (or|rather than) (the back|the middle|row <kilos>) on <flight>(, <first>|)?
        <sure>. (for all passengers|for how many people|on both flights|only on <flight>)(, or just on the way to <to>|)?
        """,
    "seat.tell": """
        <seatwish> (please|if there is one|would be best), (i have long legs|i get airsick|i'm 1.9<terminal> m tall|we travel with <companion>)
        (for|it's for) <who>, (rows|somewhere in rows) <nights> to <kilos>, (not|but not) (near the toilets|the middle|over the wing)<tail>
        """,
    "seat.offer": """
        (i have|there is|i can give you) (<seatno2>|seat <seatno2>) (by the window|on the aisle|with extra legroom|in the first row) for <fee>.
        (sorry|unfortunately), (row <nights>|the front|that row) is (full|taken|blocked), (but|how about) <seatno2> (is free|on <flight>)(, <first>|)?
        """,
    "seat.react": """
        <seatno2> (is (fine|ok|perfect)|works|sounds good), (is it|that is) (free|<fee>|included) (for <tier> members|)<tail>
        (no|hmm no|sorry no), (not <seatno2>|that's the middle), (i'd rather (stay in|keep) <seatno>|anything closer to <companion>)?
        """,
    "seat.done": """
        (seat <seatno2>|<seatno2>) (is (yours|reserved)|has been assigned) (on <flight>|for <name>|under <code>), (the boarding pass|your pass) will show it.
        """,
    "meal.open": """
        <hi> <want> (order|add|request) a <meal> meal (for <who>|) (on|for) <trip><tail>
        <hi> <companion> (has|have) (a nut allergy|an egg allergy|coeliac disease|diabetes), (what can we|is there anything to) eat on <trip>?
        <hi> last time (on the way to <to>|on <flight>) my <meal> meal was (missing|forgotten|given to <seatno>), <you> (check|confirm) it for <date>?
        """,
    "meal.ask": """
        <sure>. (is the <meal> meal|is that) for (both flights|all passengers|the outbound only)(, and is (it|there) an allergy|)?
        (do you|does the passenger) (also|) (need|want) (a snack|breakfast|a drink) (on <flight>|at <time>), <first>?
        """,
    "meal.tell": """
        (for|it's for|only for) <who>, (both ways|on <flight>|on the way back), (it's an allergy|for religious reasons|by choice|doctor's orders)<tail>
        (<meal>|strictly <meal>), and (no (nuts|milk|eggs|pork|fish)|please no (coffee|spicy things)), (thanks|on <date>)
        """,
    "meal.offer": """
        (i can (add|order)|we offer) (the|a) <meal> (meal|menu|tray) (free of charge|for <fee>), (it must be ordered|please confirm it) before <date>.
        (it's|we are) (too late|past the deadline) for <flight>, (but|so) the crew (has|can bring) (fruit|salad|a sandwich) (in|to) <seatno>.
        """,
    "meal.react": """
        (ok|great|yes), (add it|order (it|two)|put it) (to <code>|for <who>|on <flight>)<tail>
        (really|are you sure), (not even|no) (a <meal> (snack|sandwich)|a coffee) for <hours> hours to <to>?
        """,
    "meal.done": """
        (the|a|one) <meal> meal is (booked|noted|confirmed) (on <flight>|under <code>|for <name>)(, (served|brought) first|)(, enjoy <to>|).
        """,
    "upgrade.open": """
        <hi> <want> (upgrade|move up) <trip> to (business|premium|first class) (with (my points|<points> points)|for <reason>|)<tail>
        <hi> (how much|how many points) (is|for|would be) (an upgrade|business|premium) (on|for) <trip>?
        """,
    "upgrade.ask": """
        (would you|do you want to) (pay|use) (by card|points|with your <points> points|a voucher) (for the upgrade|for <flight>), <first>?
        <sure>. (both ways|for <who>|only to <to>|just the long leg), (business or premium|which cabin)?
        """,
    "upgrade.tell": """
        (with|using|by) (points|my <tier> (voucher|points)|card), (i (should have|have)|there must be) <points> (points|) (left|on my account)<tail>
        (business|premium|whatever is cheaper), (only|just) (the night flight|<flight>|the way to <to>), (my back hurts|it's for <reason>)
        """,
    "upgrade.offer": """
        (business|premium) (on <flight>|to <to>) (is|costs) <price> (or <points> points|per person|), (seat <seatno2>|with lounge|with a flat bed) (is free|included).
        (the cabin|business) is (full|sold out) <when>, (i can|shall i) put you on the (waiting list|list) (at number <terminal>|until <time>)?
        """,
    "upgrade.react": """
        (<price>|<points> points) (is (fine|too much|steep)|hmm), (do it|let me think|what about (bidding|<fee>|the way back))<tail>
        (ok|yes), (take|use) (the points|<points> points|my card) and (give me|i'd like) <seatwish> (there|up front|)<tail>
        """,
    "upgrade.done": """
        (you are|<name> is) (now|) in (business|premium) on <flight>, seat <seatno2>(, <points> points were used|, lounge <gate> is open to you|).
        """,
    "name.open": """
        <hi> (there is|i made|i found) a (typo|mistake|spelling error) in (my name|the name of <companion>|the passport number) on <trip><tail>
        <hi> i (got married|changed my surname|use my second name), (does|must) the (ticket|booking) (to <to>|for <date>) (match|be changed)?
        """,
    "name.ask": """
        (how is it (spelled|written)|what is the correct spelling) (in the passport|on the id), (letter by letter|exactly as printed), <first>?
        """,
    "name.tell": """
        (it should (be|say)|the right one is|in the passport it's|correct is) <name>, (like|as) in (my passport|<email>)<tail>
        (one letter is wrong|first and last name are swapped|the second name is missing), (it must (be|read)|should be) <name>
        """,
    "name.offer": """
        (up to (two|three) letters|a small correction|a married name) (is free|costs <fee>), (please send|i need) (a photo of the passport|the certificate) (by <date>|).
        """,
    "name.react": """
        (ok|sure|fine), (i('ll| will) send|i just sent|i mailed) (the scan|a photo|it) (from <email>|at <time>)<tail>
        (will|can) <who> (still|) (board|check in|fly) <when> (if|when) it's not (changed|fixed) (in time|by then)?
        """,
    "name.done": """
        (the name|booking <code>) now (reads|shows|says) <name>, (please print|check in again for|you can keep) (<flight>|the new pass|your seat <seatno>).
        """,
}
