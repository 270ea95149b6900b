"""Words that identify the language of a question: function words, and nouns for what photographs show most."""

FUNCTION_WORDS = {
    "English": "the a an of on in at with and or is are to by for from near under over their his her its who that",
    "German": "sie der das dem den des ein eine einem einen einer eines und mit auf im zwei ist sind nicht ohne"
    " vor hinter neben unter über von für zum zur beim mein meine unser unsere am vom bei aus",
    "French": "le la les un une des du de et est sont avec dans sur sous sans au aux qui deux devant derrière près"
    " mon ma mes chez",
    "Spanish": "el la los las un una unos unas y de del en con sin por para sobre al dos que junto está están mi"
    " mis nuestro nuestra",
    "Italian": "il lo la gli le un uno una di del della dei delle nel nella sul sulla con senza che due è sono al mio"
    " mia nostro nostra",
    "Portuguese": "o os as um uma uns umas de do da dos das e com em na nas num numa sem ao dois duas que está meu"
    " minha nosso nossa",
    "Dutch": "de het een en met op van zonder voor achter naast onder aan bij twee zijn niet uit mijn onze",
    "Swedish": "en ett och med på av utan för den det två är som vid min mitt mina",
    "Polish": "z na w nad pod przed bez dwa jest są się obok oraz dwie i mój moja ze",
    "Czech": "na v u s ze je jsou bez pod nad před vedle dva dvě můj moje a",
    "Turkish": "bir ve ile iki bu üzerinde altında yanında olan benim",
    "Finnish": "ja on ovat kaksi joka minun kanssa ilman vieressä",
    "Indonesian": "di dan yang dengan seorang dua saya ke dari tanpa sedang",
    "Romanian": "un o și cu pe la în de lângă fără doi două este sunt mea meu",
}
# Nouns that are neither English words nor names: one of them weighs as much as two function words.
NOUNS = {
    "German": "hund hunde frau mädchen junge wasser schnee schneemann katze katzen bäume straße strasse pferd"
    " pferde fahrrad fußball geburtstag geburtstagskuchen weihnachten weihnachtsbaum hochzeit urlaub"
    " sonnenuntergang blumen vögel kuchen küche feuerwehr spielplatz schaukel rotes blauer",
    "French": "chien chiens homme femme fille garçon enfant enfants plage neige maison arbre cheval chevaux vélo"
    " voiture anniversaire gâteau mariage vacances oiseau oiseaux fleurs montagne forêt ciel famille"
    " pompiers lunettes chapeau balançoire",
    "Spanish": "perro perros hombre mujer niña niñas nieve gato gatos árbol caballo bicicleta coche cumpleaños"
    " navidad vacaciones pájaro jardín montaña cielo abuela abuelo bomberos gafas columpio muñeco",
    "Italian": "cani uomo bambino bambina bambini ragazza ragazzo spiaggia gatto gatti albero alberi cavallo"
    " bicicletta macchina compleanno matrimonio vacanze uccello fiori giardino montagna cielo tramonto"
    " famiglia pompieri occhiali cappello divano altalena pupazzo azzurro",
    "Portuguese": "cachorro cães cão homem mulher menino menina crianças árvore cavalo gato aniversário casamento"
    " férias pássaro céu avó avô família bombeiros chapéu óculos balanço boneco vermelho",
    "Dutch": "hond honden vrouw jongen meisje kinderen sneeuw sneeuwpop huis paard fiets verjaardag taart bruiloft"
    " vakantie bloemen tuin lucht zonsondergang gezin brandweer bril schommel blauwe",
    "Swedish": "hundar kvinna flicka pojke snö häst stranden bil födelsedag tårta bröllop fågel blommor trädgård"
    " solnedgång mormor cykel snögubbe",
    "Polish": "psy kobieta mężczyzna dziewczyna chłopiec dziecko dzieci śnieg kot koty drzewo koń plaża plaży"
    " samochód urodziny święta ślub wakacje ptak kwiaty ogród niebo zachód babcia bałwan czerwony",
    "Czech": "pes psi kočka žena muž dítě děti sníh dům strom kůň pláž pláži narozeniny dort vánoce svatba"
    " dovolená pták květiny zahrada nebe babička kolo sněhulák červené",
    "Turkish": "köpek kedi kadın çocuk çocuklar ağaç plaj plajda araba doğum gününde düğün tatil kuş çiçek bahçe"
    " gökyüzü bisiklet şapka şapkalı kırmızı",
    "Finnish": "koira koirat kissa nainen lapsi lapset hevonen ranta rannalla punainen syntymäpäivä kakku joulu häät"
    " kukat taivas auringonlasku pyörä lumiukko",
    "Indonesian": "anjing kucing pria wanita anak-anak salju rumah pohon pantai merah ulang tahun pernikahan liburan"
    " burung langit matahari sepeda",
    "Romanian": "câine câini pisică bărbat femeie fată băiat copil copii zăpadă copac plajă mașină roșie crăciun"
    " nuntă vacanță pasăre flori grădină bicicletă bicicleta",
}
# Nouns that may be names or parts of them ("kinder egg", "Berg"): they count only beside other words of the language.
PERHAPS_NAMES = {
    "German": "haus häuser blume gras kinder berg berge baum strand wald himmel oma opa sohn tochter vater bruder"
    " schwester sonne regen hände brot apfel äpfel schiff ente kuh schaf ziege wolke wolken mond nacht herbst meer"
    " fluss brücke kirche schloss fenster tür tisch stuhl bett zimmer wohnzimmer zug flugzeug bahnhof großeltern"
    " großmutter großvater freunde eltern enkel mütze brille kleid blau grün gelb weiß eisenbahn hase kaninchen"
    " schmetterling biene ostern weihnachtsmann geschenke feuer kerze kerzen wiese insel hafen spielzeug puppe"
    " klavier buch zeitung frühling",
    "French": "soleil rivière arbres fleur bébé garçons femmes hommes maman grand-mère grand-père jardin église"
    " château fenêtre bateau avion gare lune étoile nuage nuages pluie hiver été automne printemps noël vache mouton"
    " poisson pomme livre",
    "Spanish": "playa lago río bosque flor niños mujer mujeres hombres bebé madre hermano hermana hija hijo"
    " cocina iglesia puente ventana barco avión tren estrella nube nubes lluvia invierno verano otoño primavera vaca"
    " oveja pez pájaros libro boda",
    "Italian": "lago fiume bosco fiore donne uomini nonno nonna madre fratello sorella figlia figlio cucina chiesa"
    " castello ponte finestra barca aereo treno nuvola nuvole pioggia inverno autunno primavera mucca pecora pesce"
    " libro mela",
}
# Letters that occur in hardly any English loanword; they do not identify the language.
FOREIGN_LETTERS = "ğşıłśźżćńčřšžěďťňľůőűășțđơưåøæœßãõ¿¡ạảấầẩậắằặẹẻẽếềểệỉịọỏốồổộớờởợụủứừửựỳỵỷỹ"
