"""The facts a dialogue turns on - flights, dates, prices, bags - each invented when somebody first mentions it.

None of them can look like a booking code: the longest run of capitals and digits is five signs.
"""

from collections.abc import Callable

from hearsay.demo.customers import OCCASIONS, PLACES, Customer
from hearsay.demo.grammar import Odds, Scene
from hearsay.demo.people import AGENTS

Inventor = Callable[[Scene], str]

DAYS = ("Monday", "Friday", "Sunday", "Saturday", "Thursday", "Tuesday", "Wednesday")
MONTHS = ("July", "August", "June", "September", "May", "December", "October", "April", "March", "November")
MONEY = Odds(("{} euros", "€{}", "{} EUR", "{} eur", "EUR {}"))
DATES = Odds(("{day} {month}", "{month} {day}", "the {day}th of {month}", "{day}/{number}", "{month} {day}th"))
BAGS = ("suitcase", "hard case", "backpack", "travel bag", "trolley", "duffel bag", "garment bag")
COLOURS = (
    "black",
    "blue",
    "red",
    "grey",
    "green",
    "dark blue",
    "silver",
    "brown",
    "yellow",
    "purple",
    "orange",
    "pink",
)
ANIMALS = (
    "dog",
    "cat",
    "puppy",
    "kitten",
    "terrier",
    "rabbit",
    "guide dog",
    "dachshund",
    "beagle",
    "parrot",
    "poodle",
    "ferret",
    "hamster",
    "old labrador",
)
PETS = ("Luna", "Max", "Bella", "Coco", "Milo", "Nala", "Rocky", "Simba", "Daisy", "Pepper", "Oreo", "Biscuit", "Ziggy")
HOTELS = (
    "Central",
    "Park",
    "Royal",
    "Harbour",
    "Astoria",
    "Bristol",
    "Station",
    "Garden",
    "Plaza",
    "Lindenhof",
    "Mirador",
)
FIRMS = (
    "Nordlicht",
    "Bluefin",
    "Castellan",
    "Orbita",
    "Halden",
    "Quadrat",
    "Meridian",
    "Tessera",
    "Ironbark",
    "Solvent",
)
SECTORS = ("Consulting", "Logistics", "Software", "Foods", "Partners", "Design", "Energy", "Studio", "Medical")

_MONTHS, _MONTH_NUMBER = Odds(MONTHS), {"March": 3, "April": 4, "May": 5, "June": 6, "July": 7, "August": 8}
_MONTH_NUMBER |= {"September": 9, "October": 10, "November": 11, "December": 12}
# Facts about the booked trip live as long as its code: the customer comes back about the same flight.
TRIP = ("from", "to", "flight", "date", "day", "time", "price", "seatno", "reason", "nights")
KEEP_CASE = frozenset(("name", "first", "code", "flight", "flight2", "seatno", "seatno2", "gate"))


def one_of(options: tuple[str, ...]) -> Inventor:
    odds = Odds(options)
    return lambda scene: odds.draw(scene.dice)


def between(low: int, high: int, shape: str = "{}") -> Inventor:
    return lambda scene: shape.format(scene.dice.number(low, high))


def money(low: int, high: int) -> Inventor:
    """Some prices have cents, and round ones are commoner than others, as in real fares and fees."""

    def invent(scene: Scene) -> str:
        amount = scene.dice.number(low // 5, high // 5) * 5 if scene.dice.chance(0.3) else scene.dice.number(low, high)
        cents = f".{scene.dice.number(1, 9)}{scene.dice.number(0, 1) * 5}" if scene.dice.chance(0.25) else ""
        return MONEY.draw(scene.dice).format(f"{amount}{cents}")

    return invent


def calendar_date(scene: Scene) -> str:
    month, day = _MONTHS.draw(scene.dice), scene.dice.number(4, 20)
    return DATES.draw(scene.dice).format(day=day, month=month, number=_MONTH_NUMBER[month])


def clock(scene: Scene) -> str:
    hour, minute = scene.dice.number(5, 22), scene.dice.number(0, 11) * 5
    if scene.dice.chance(0.7):
        return f"{hour}:{minute:02d}"
    return f"{(hour - 1) % 12 + 1}{f':{minute:02d}' if minute else ''} {'am' if hour < 12 else 'pm'}"


def mostly(habit: str, share: float) -> Inventor:
    """The customer's usual place, or now and then another one."""
    return lambda scene: scene.settle(habit) if scene.dice.chance(share) else PLACES.draw(scene.dice)


def pair(left: tuple[str, ...], right: tuple[str, ...]) -> Inventor:
    first, second = Odds(left), Odds(right)
    return lambda scene: f"{first.draw(scene.dice)} {second.draw(scene.dice)}"


def seat_number(scene: Scene) -> str:
    return f"{scene.dice.number(1, 34)}{'ABCDEF'[scene.dice.number(0, 5)]}"


def file_number(scene: Scene) -> str:
    return f"{scene.dice.number(100, 999)}-{scene.dice.number(100, 999)}"


def destination(scene: Scene) -> str:
    """Any place but where the trip starts."""
    start = scene.settle("from")
    place = mostly("destination", 0.6)(scene)
    while place == start:
        place = PLACES.draw(scene.dice)
    return place


def occasion(scene: Scene) -> str:
    return OCCASIONS[scene.settle("purpose")].draw(scene.dice)


INVENTORS: dict[str, Inventor] = {
    "from": mostly("home", 0.75),
    "to": destination,
    "city": lambda scene: PLACES.draw(scene.dice),
    "flight": between(101, 989, "KT{}"),
    "flight2": between(101, 989, "KT{}"),
    "gate": between(1, 48, "B{}"),
    "date": calendar_date,
    "date2": calendar_date,
    "month": one_of(MONTHS),
    "time": clock,
    "time2": clock,
    "day": one_of(DAYS),
    "day2": one_of(DAYS),
    "nights": between(2, 14),
    "terminal": between(1, 5),
    "price": money(80, 900),
    "sum": money(50, 600),
    "fee": money(15, 180),
    "hours": between(2, 9),
    "minutes": between(30, 180),
    "kilos": between(4, 32),
    "age": between(2, 14),
    "last4": between(1000, 9999),
    "points": between(12, 480, "{}00"),
    "points2": between(120, 990, "{}00"),
    "tag": file_number,
    "case": file_number,
    "seatno": seat_number,
    "seatno2": seat_number,
    "reason": occasion,
    "bag": pair(COLOURS, BAGS),
    "animal": one_of(ANIMALS),
    "petname": one_of(PETS),
    "hotel": one_of(HOTELS),
    "company": pair(FIRMS, SECTORS),
    "agent": one_of(AGENTS),
}


def customer_facts(customer: Customer, code: str) -> dict[str, tuple[str, float]]:
    """What a dialogue knows from its start, each with the bits that a reader of one row alone would need."""
    habits = customer.habits
    costs = habits.costs
    return {
        "name": (customer.name, costs["name"]),
        "first": (customer.first_name, costs["name"] / 2),
        "email": (customer.email, costs["name"] + costs["email"]),
        "code": (code, costs["code"]),
        "home": (habits.home, costs["home"]),
        "destination": (habits.destination, costs["destination"]),
        "seatwish": (habits.seat, costs["seat"]),
        "meal": (habits.meal, costs["meal"]),
        "companion": (habits.companion, costs["companion"]),
        "purpose": (habits.reason, costs["reason"]),
        "tier": (habits.tier, costs["tier"]),
        "card": (habits.card, costs["card"]),
    }


CUSTOMER_FACTS = frozenset(
    (
        "name",
        "first",
        "email",
        "code",
        "home",
        "destination",
        "seatwish",
        "meal",
        "companion",
        "purpose",
        "tier",
        "card",
    )
)
