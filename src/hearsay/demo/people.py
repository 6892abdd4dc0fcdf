"""Who flies with the simulated airline: names, places and the lists that habits are drawn from.

Names are common ones of many countries, paired at random: no list of real persons stands behind them.
"""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FIRST_NAMES = _words(
    """
    Aaron Abigail Adam Adriana Agnes Ahmed Aisha Alan Albert Alejandra Alexei Alice Alina Amara Amelia Amina Ana
    Anders Andrea Angela Anika Anton Aoife Arjun Astrid Barbara Beatriz Benedict Bianca Boris Brenda Brian Bruno
    Camila Carl Carmen Carolina Cecilia Chandra Charlotte Chen Chloe Clara Claudia Conrad Cynthia Daisuke Dalia
    Daniela Darius David Deborah Deepa Denise Diego Dimitri Dolores Dominik Dorothy Edith Eduardo Elena Elias Eliza
    Emeka Emil Emma Enrique Erik Esther Eva Fabian Farah Fatima Felix Fernanda Fiona Florian Francesca Frank Gabriel
    Gemma George Gerda Gianni Gloria Grace Gregor Greta Gustavo Habib Hannah Harold Haruka Hassan Heather Hector
    Heidi Helena Henrik Hiroshi Hugo Ibrahim Ida Imani Imran Ines Ingrid Irene Isaac Isabel Ivan Jacob Jamila Jana
    Jasmine Javier Jelena Jennifer Jerome Joanna Johan Jonas Jorge Josephine Joyce Judith Julian Kaito Karen Karim
    Katarina Keiko Kenneth Khalid Kirsten Kofi Krista Lars Laura Layla Leonie Liam Lidia Linda Linus Lorenzo Lucia
    Ludwig Magnus Maja Malik Manuel Marcel Margaret Mariam Marta Mateo Matilda Maurice Mei Melissa Miguel Milan
    Miriam Mohan Monica Nadia Naomi Natalia Nigel Nikolai Nina Noor Norman Olga Oliver Omar Oscar Pablo Paloma
    Patricia Pedro Petra Philip Priya Rachel Rafael Ramona Rashid Rebecca Renata Ricardo Rita Robert Rosa Ruben
    Sabine Salma Samuel Sandra Sanjay Sara Selma Sergio Simone Sofia Stefan Susan Tamara Tariq Teresa Thabo Theodor
    Tobias Tomas Ursula Valentina Vera Victor Vikram Walter Wanda Yara Yusuf Zoe
    """
)

LAST_NAMES = _words(
    """
    Abbott Abdi Acosta Adeyemi Aguilar Ahlgren Akhtar Albrecht Almeida Alvarez Andersen Anderson Antonov Aoki Arslan
    Ashworth Bailey Baker Balogun Banerjee Baptiste Barnes Bauer Becker Benitez Bennett Berger Bergstrom Bianchi
    Blake Bogdanov Borges Bradley Brandt Brennan Briggs Brooks Bryant Burke Caldwell Campbell Carlsen Carter
    Castillo Chandler Chaudhry Chavez Clarke Coleman Collins Conti Cooper Correia Costa Cruz Dahl Dalton Danso
    Davidson Delgado Demir Dhillon Diallo Dixon Dombrowski Donnelly Duarte Dubois Dumont Duncan Eastwood Eklund
    Ellis Engel Eriksen Espinoza Estrada Evans Fagan Farouk Faulkner Fernandes Ferrari Fischer Fitzgerald Fleming
    Flores Fontaine Forsberg Foster Franco Frazier Friedrich Fujita Gallagher Galvez Garcia Gardner Gautier Gerhardt
    Gibson Gomes Gonzalez Gordon Graham Greco Griffin Gruber Guerrero Gupta Gustafsson Haas Hadley Hakimi Hamilton
    Hansen Harper Hartmann Hashemi Hayashi Henderson Herrera Hoffmann Holmberg Horvath Howell Hughes Hussain Ibarra
    Inoue Ivanova Iversen Jackson Jansen Jensen Jimenez Johansson Juarez Kader Kaminski Kapoor Karlsson Kaya Keller
    Kelly Khoury Kimura Kirchner Klein Kovacs Kowalski Kozlov Kramer Krishnan Kruger Kumar Lambert Larsen Laurent
    Lehmann Lindgren Lombardi Lopez Lund Macdonald Madsen Mahmoud Malone Mancini Marchetti Marquez Martinez Mbeki
    Mendoza Meyer Mishra Molina Moreau Moretti Morgan Moyo Murphy Nakamura Navarro Ndiaye Nguyen Nielsen Novak
    Nyberg Obi Ochoa Okafor Olsen Onyango Ortega Osei Owens Paredes Park Patel Pavlov Pereira Petersen Petrov Pham
    Pinto Popescu Quinn Rahman Ramirez Reddy Reilly Reyes Ribeiro Richter Rinaldi Rivera Robertson Romero Rossi
    Rousseau Ruiz Saito Salazar Sandoval Santos Sato Schmidt Schneider Serrano Shapiro Sharma Silva Singh Sokolov
    Soto Stewart Suzuki Svensson Szabo Tanaka Tavares Torres Turner Ueda Vargas Vasquez Villanueva Vogel Wagner
    Walsh Watanabe Weber Werner Whitaker Winkler Wolf Yamamoto Yilmaz Zhang Ziegler
    """
)

AGENTS = _words(
    """
    Nadine Marco Sunita Joel Elif Rosie Tom Agata Samir Hilde Andre Lucy Pia Owen Yuki Ben Carla Dev Moira Luka Tess
    Kwame Ilse Raj Bettina Piotr Lena Femi Hana Rory Sven Anouk Jia Callum Dana Emre Gaia Ioana Jarek Leila Mandy
    Nuno Ottilie
    """
)

CITIES = (
    *_words(
        """
    London Madrid Paris Lisbon Berlin Rome Amsterdam Dublin Vienna Oslo Barcelona Copenhagen Athens Prague Munich
    Milan Istanbul Stockholm Warsaw Zurich Porto Edinburgh Brussels Helsinki Budapest Hamburg Manchester Naples
    Geneva Seville Krakow Bucharest Dubai Boston Toronto Tokyo Nairobi Cairo Singapore Chicago Montreal Marrakech
    Reykjavik Valencia Malaga Bilbao Riga Tallinn Sofia Venice Bologna Lyon Palermo Turin Florence Bari Cologne
    Dresden Leipzig Salzburg Graz Innsbruck Basel Toulouse Bordeaux Nantes Lille Rotterdam Antwerp Bristol Leeds
    Newcastle Belfast Aberdeen Cardiff Malmo Aarhus Trondheim Tampere Vilnius Gdansk Wroclaw Ljubljana Zagreb Split
    Belgrade Sarajevo Tirana Corfu Rhodes Larnaca Ankara Izmir Antalya Tbilisi Yerevan Baku Doha Muscat Amman
    Casablanca Tunis Accra Dakar Johannesburg Denver Seattle Houston Miami Atlanta Vancouver Calgary Havana Bogota
    Lima Santiago Osaka Taipei Manila Jakarta Sydney Perth Auckland Ibiza Funchal Girona Nice Marseille Stuttgart
    Bergen Gothenburg Cork Glasgow Birmingham Delhi Mumbai Bangkok Seoul Lagos
    """
    ),
    *("New York", "Tel Aviv", "Cape Town", "Mexico City", "Buenos Aires", "San Francisco", "Hong Kong", "Las Palmas"),
)

COMPANIONS = (
    *("my wife", "my husband", "my daughter", "my son", "my mother", "my partner", "my kids", "my father"),
    *("a colleague", "my sister", "my brother", "my boss", "two friends", "my grandmother", "my twins", "a friend"),
    *("my fiance", "my aunt", "my nephew", "my neighbour", "my flatmate", "my cousin", "my girlfriend", "my boyfriend"),
)
SEATS = (
    *("a window seat", "an aisle seat", "a seat near the front", "an exit row", "two seats together"),
    *(
        "extra legroom",
        "a seat at the back",
        "the left side window",
        "a seat far from the toilets",
        "the very first row",
    ),
)
MEALS = (
    *("vegetarian", "vegan", "gluten free", "halal", "kosher", "lactose free", "low salt", "diabetic", "nut free"),
    *("children's", "hindu vegetarian", "fruit only", "seafood free"),
)
# Why a customer flies, and which errands that makes likelier: people differ, so shards of customers differ.
REASONS = {
    "work": (
        (
            "a client meeting",
            "a trade fair",
            "a conference",
            "a job interview",
            "a training week",
            "the board meeting",
            "an audit",
            "a site visit",
            "a product launch",
            "a court hearing",
            "contract talks",
            "a photo shoot",
            "a film festival",
        ),
        {"invoice": 4.0, "change": 2.0, "upgrade": 2.5, "points": 2.5, "child": 0.2, "pet": 0.3},
    ),
    "family": (
        (
            "a wedding",
            "a funeral",
            "a birthday",
            "the school holidays",
            "a christening",
            "a family reunion",
            "a baby shower",
            "christmas with my parents",
            "a silver wedding",
            "a house move",
            "a baptism",
            "new year's eve",
            "an 80th birthday",
        ),
        {"child": 4.0, "seat": 2.0, "meal": 2.0, "pet": 2.0, "invoice": 0.3},
    ),
    "holiday": (
        (
            "a beach holiday",
            "our honeymoon",
            "a hiking trip",
            "a concert",
            "a ski week",
            "a city break",
            "a cruise",
            "a diving course",
            "a marathon",
            "carnival",
            "a wine tour",
            "a safari",
            "a football match",
            "a surf camp",
            "an opera night",
        ),
        {"extra": 3.0, "refund": 1.5, "cancel": 1.5, "book": 1.5},
    ),
    "study": (
        (
            "the new semester",
            "an exam",
            "an exchange year",
            "a summer school",
            "a graduation",
            "a thesis defence",
            "a language course",
            "field work",
            "an internship",
            "a chess tournament",
            "orientation week",
        ),
        {"extra": 2.5, "book": 2.0, "name": 2.0, "upgrade": 0.3},
    ),
    "health": (
        (
            "a knee operation",
            "a check-up",
            "a therapy session",
            "an eye clinic appointment",
            "a back treatment",
            "a hearing test",
            "a spa cure",
            "a dental implant",
            "a heart scan",
            "an allergy test",
            "a second opinion",
        ),
        {"assist": 6.0, "cancel": 2.0, "meal": 1.5},
    ),
}
