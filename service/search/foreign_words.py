"""Words by which a question in another language than English is told: short ones, and what photographs show most."""

FUNCTION_WORDS = {
    "English": "the a an of on in at with and or is are to by for from near under over their his her its who that",
    "German": "sie der das dem den des ein eine einem einen einer eines und mit auf im zwei ist sind nicht ohne"
    " vor hinter neben unter über von für zum zur beim mein meine unser unsere am vom bei aus",
    "French": "le la les un une des du de et est sont avec dans sur sous sans au aux qui deux devant derrière près"
    " mon ma mes notre nos chez",
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
# They are neither English nor names: one of them is as good as two short words.
NOUNS = {
    "German": "hund hunde frau mann mädchen junge kinder wasser schnee schneemann katze katzen haus baum bäume"
    " straße strasse pferd pferde fahrrad fußball geburtstag geburtstagskuchen weihnachten weihnachtsbaum"
    " hochzeit urlaub sonnenuntergang himmel meer wald blumen vogel vögel kuchen küche garten oma opa"
    " familie feuerwehr spielplatz schaukel rotes blauer bild bilder fotos",
    "French": "chien chiens homme femme fille garçon enfant enfants plage neige maison arbre cheval chevaux vélo"
    " voiture anniversaire gâteau noël mariage vacances oiseau oiseaux fleurs jardin montagne forêt ciel"
    " soleil mamie papi famille pompiers lunettes chapeau balançoire",
    "Spanish": "perro perros hombre mujer niño niña niños niñas nieve gato gatos árbol caballo bicicleta playa coche"
    " cumpleaños navidad boda vacaciones pájaro jardín montaña cielo abuela abuelo familia bomberos gafas"
    " columpio muñeco",
    "Italian": "cani uomo bambino bambina bambini ragazza ragazzo spiaggia gatto gatti albero alberi cavallo"
    " bicicletta macchina neve compleanno torta matrimonio vacanze uccello fiori giardino montagna cielo"
    " tramonto nonna nonno famiglia pompieri occhiali cappello divano altalena pupazzo azzurro rossa",
    "Portuguese": "cachorro cães cão homem mulher menino menina crianças praia árvore cavalo gato carro neve"
    " aniversário bolo casamento férias pássaro jardim montanha céu avó avô família bombeiros chapéu"
    " óculos balanço boneco vermelho",
    "Dutch": "hond honden vrouw jongen meisje kinderen sneeuw sneeuwpop huis paard fiets verjaardag taart kerst"
    " bruiloft vakantie vogel bloemen tuin lucht zonsondergang gezin brandweer bril schommel blauwe",
    "Swedish": "hundar kvinna flicka pojke snö häst stranden bil födelsedag tårta bröllop fågel blommor trädgård"
    " himmel solnedgång mormor cykel snögubbe",
    "Polish": "psy kobieta mężczyzna dziewczyna chłopiec dziecko dzieci śnieg kot koty drzewo koń plaża plaży"
    " samochód urodziny święta ślub wakacje ptak kwiaty ogród niebo zachód babcia bałwan czerwony",
    "Czech": "pes psi kočka žena muž dítě děti sníh dům strom kůň pláž pláži narozeniny dort vánoce svatba"
    " dovolená pták květiny zahrada nebe babička kolo sněhulák červené",
    "Turkish": "köpek kedi kadın çocuk çocuklar ağaç plaj plajda araba doğum gününde düğün tatil kuş çiçek bahçe"
    " gökyüzü bisiklet şapka şapkalı kırmızı",
    "Finnish": "koira koirat kissa mies nainen lapsi lapset lumi talo hevonen ranta rannalla punainen syntymäpäivä"
    " kakku joulu häät loma lintu kukat taivas auringonlasku pyörä lumiukko",
    "Indonesian": "anjing kucing pria wanita anak anak-anak salju rumah pohon kuda pantai merah ulang tahun pernikahan"
    " liburan burung bunga langit matahari sepeda topi",
    "Romanian": "câine câini pisică bărbat femeie fată băiat copil copii zăpadă casă copac plajă mașină roșie crăciun"
    " nuntă vacanță pasăre flori grădină cerul apus bicicletă bicicleta",
}
# Letters that English borrows with no word or hardly any; they do not say which language they are of.
FOREIGN_LETTERS = "ğşıłśźżćńčřšžěďťňľůőűășțđơưåøæœßãõ¿¡ạảấầẩậắằặẹẻẽếềểệỉịọỏốồổộớờởợụủứừửựỳỵỷỹ"
