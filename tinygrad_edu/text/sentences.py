"""The corpus `grammar`: sentences of a children's book, in Portuguese and in English.

One sentence a line, in lower case; only questions have a mark at their end. What a model has to
find out: two languages that do not mix, who climbs and who flies, and agreement. In Portuguese
article, noun, adjective and predicate agree in gender and number (`as gatas pretas estão
cansadas`), at a distance too (`a gata que subiu no muro está cansada`); in English the verb agrees
in number and the article with the sound after it (`an owl`, `a small owl`).

How the table is read stands in `tinygrad_edu.text.grammar`. Names end in `ms fs mp fp` for
masculine and feminine, singular and plural, in `s p` for one and many, in `inf` for a verb's plain
form.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from tinygrad_edu.text.grammar import Grammar

LENGTH = 450_000
"""The corpus ends with the sentence that brings it to this many characters."""
SEED = 1

PORTUGUESE = {
    "portuguese": "14 {pt said} | 3 {pt time} {pt said} | 4 {pt said} {pt time}"
    " | 6 {pt state} | 5 {pt question}",
    "pt said": "5 {pt climber s} {pt climbed s} | 3 {pt runner s} {pt ran s}"
    " | 3 {pt bird s} {pt flew s} | 5 {pt person s} {pt made s}"
    " | 2 {pt climber p} {pt climbed p} | 2 {pt runner p} {pt ran p}"
    " | 2 {pt bird p} {pt flew p} | 2 {pt person p} {pt made p}",
    "pt time": "3 ontem | 2 hoje | 2 de manhã | 2 à noite | 1 depois da chuva",
    # who
    "pt climber s": "6 o {pt climber ms} | 5 a {pt climber fs} | 2 um {pt climber ms}"
    " | 1 uma {pt climber fs}",
    "pt climber p": "3 os {pt climber mp} | 2 as {pt climber fp}",
    "pt climber ms": "3 {pt cat ms} | 1 {pt cat ms} {pt look ms}",
    "pt climber fs": "3 {pt cat fs} | 1 {pt cat fs} {pt look fs}",
    "pt climber mp": "3 {pt cat mp} | 1 {pt cat mp} {pt look mp}",
    "pt climber fp": "3 {pt cat fp} | 1 {pt cat fp} {pt look fp}",
    "pt cat ms": "4 gato | 2 macaco | 1 esquilo",
    "pt cat fs": "3 gata | 2 macaca",
    "pt cat mp": "4 gatos | 2 macacos | 1 esquilos",
    "pt cat fp": "3 gatas | 2 macacas",
    "pt runner s": "6 o {pt runner ms} | 5 a {pt runner fs} | 2 um {pt runner ms}"
    " | 1 uma {pt runner fs}",
    "pt runner p": "3 os {pt runner mp} | 2 as {pt runner fp} | 1 {pt two runners}",
    "pt runner ms": "3 {pt dog ms} | 1 {pt dog ms} {pt look ms}",
    "pt runner fs": "3 {pt dog fs} | 1 {pt dog fs} {pt look fs}",
    "pt runner mp": "3 {pt dog mp} | 1 {pt dog mp} {pt look mp}",
    "pt runner fp": "3 {pt dog fp} | 1 {pt dog fp} {pt look fp}",
    "pt dog ms": "3 cachorro | 2 coelho | 2 cavalo",
    "pt dog fs": "2 raposa | 1 cabra | 1 ovelha",
    "pt dog mp": "3 cachorros | 2 coelhos | 2 cavalos",
    "pt dog fp": "2 raposas | 1 cabras | 1 ovelhas",
    "pt two runners": "2 o cachorro e o gato | 1 a raposa e o coelho | 1 a cabra e a ovelha",
    "pt bird s": "6 o {pt bird ms} | 5 a {pt bird fs} | 2 um {pt bird ms} | 1 uma {pt bird fs}",
    "pt bird p": "3 os {pt bird mp} | 2 as {pt bird fp}",
    "pt bird ms": "4 {pt owl ms} | 1 {pt owl ms} {pt size ms}",
    "pt bird fs": "4 {pt owl fs} | 1 {pt owl fs} {pt size fs}",
    "pt bird mp": "4 {pt owl mp} | 1 {pt owl mp} {pt size mp}",
    "pt bird fp": "4 {pt owl fp} | 1 {pt owl fp} {pt size fp}",
    "pt owl ms": "3 pássaro | 1 papagaio | 1 canário",
    "pt owl fs": "2 coruja | 1 andorinha | 1 pomba",
    "pt owl mp": "3 pássaros | 1 papagaios | 1 canários",
    "pt owl fp": "2 corujas | 1 andorinhas | 1 pombas",
    "pt person s": "1 o {pt person ms} | 1 a {pt person fs}",
    "pt person p": "3 os {pt person mp} | 3 as {pt person fp} | 1 o menino e a menina"
    " | 1 o rei e a rainha",
    "pt person ms": "5 {pt boy ms} | 1 {pt boy ms} {pt mood ms}",
    "pt person fs": "5 {pt boy fs} | 1 {pt boy fs} {pt mood fs}",
    "pt person mp": "5 {pt boy mp} | 1 {pt boy mp} {pt mood mp}",
    "pt person fp": "5 {pt boy fp} | 1 {pt boy fp} {pt mood fp}",
    "pt boy ms": "3 menino | 2 avô | 1 rei | 1 pintor",
    "pt boy fs": "3 menina | 2 avó | 1 rainha | 1 pintora",
    "pt boy mp": "3 meninos | 1 reis | 1 pintores",
    "pt boy fp": "3 meninas | 1 rainhas | 1 pintoras",
    # what they are like
    "pt look ms": "3 preto | 2 branco | 2 {pt size ms}",
    "pt look fs": "3 preta | 2 branca | 2 {pt size fs}",
    "pt look mp": "3 pretos | 2 brancos | 2 {pt size mp}",
    "pt look fp": "3 pretas | 2 brancas | 2 {pt size fp}",
    "pt size ms": "2 pequeno | 1 velho",
    "pt size fs": "2 pequena | 1 velha",
    "pt size mp": "2 pequenos | 1 velhos",
    "pt size fp": "2 pequenas | 1 velhas",
    "pt mood ms": "2 cansado | 1 curioso | 1 contente",
    "pt mood fs": "2 cansada | 1 curiosa | 1 contente",
    "pt mood mp": "2 cansados | 1 curiosos | 1 contentes",
    "pt mood fp": "2 cansadas | 1 curiosas | 1 contentes",
    # what they did
    "pt climbed s": "5 subiu {pt high} | 2 pulou {pt down} | 3 dormiu {pt soft}",
    "pt climbed p": "5 subiram {pt high} | 2 pularam {pt down} | 3 dormiram {pt soft}",
    "pt high": "4 no telhado | 2 no muro | 2 na árvore | 1 na mesa",
    "pt down": "2 do muro | 2 da janela | 1 da cadeira",
    "pt soft": "3 no sofá | 2 na cama | 1 na cadeira",
    "pt ran s": "4 correu {pt away} | 2 bebeu água {pt water} | 3 dormiu {pt out}",
    "pt ran p": "4 correram {pt away} | 2 beberam água {pt water} | 3 dormiram {pt out}",
    "pt away": "2 para casa | 2 para o rio | 1 para a praia | 2 pelo campo | 1 pela praça",
    "pt water": "2 no rio | 1 no lago | 1 na fonte",
    "pt out": "3 no jardim | 1 debaixo da árvore | 1 perto do rio",
    "pt flew s": "4 voou sobre {pt over} | 2 pousou {pt perch} | 3 cantou {pt stage}",
    "pt flew p": "4 voaram sobre {pt over} | 2 pousaram {pt perch} | 3 cantaram {pt stage}",
    "pt over": "2 o rio | 2 a casa | 1 o mar | 1 as árvores",
    "pt perch": "2 no telhado | 1 no muro | 2 na janela",
    "pt stage": "2 na árvore | 1 na janela | 2 no jardim",
    "pt made s": "3 abriu {pt door} | 2 fechou {pt door} | 3 leu {pt text} | 2 escreveu {pt letter}"
    " | 2 comprou {pt goods} | 3 viu {pt sight}",
    "pt made p": "3 abriram {pt door} | 2 fecharam {pt door} | 3 leram {pt text}"
    " | 2 escreveram {pt letter} | 2 compraram {pt goods} | 3 viram {pt sight}",
    "pt door": "3 a porta | 3 a janela | 1 o portão",
    "pt text": "2 o livro | 1 o jornal | 2 {pt letter}",
    "pt letter": "2 uma carta | 1 uma história | 1 um poema",
    "pt goods": "2 pão | 1 flores | 1 uma maçã | 1 um chapéu",
    "pt sight": "2 um {pt climber ms} | 1 um {pt bird ms} | 1 uma {pt runner fs} | 1 a lua"
    " | 1 o mar",
    # how they are, and what one asks
    "pt state": "3 o {pt climber ms} está {pt is ms} | 3 a {pt climber fs} está {pt is fs}"
    " | 2 os {pt climber mp} estão {pt is mp} | 2 as {pt climber fp} estão {pt is fp}"
    " | 2 o {pt cat ms} que {pt climbed s} está {pt is ms}"
    " | 2 a {pt cat fs} que {pt climbed s} está {pt is fs}"
    " | 1 os {pt cat mp} que {pt climbed p} estão {pt is mp}"
    " | 1 as {pt cat fp} que {pt climbed p} estão {pt is fp}"
    " | 2 o {pt boy ms} está {pt is ms} | 2 a {pt boy fs} está {pt is fs}",
    "pt is ms": "3 cansado | 2 perdido | 2 contente | 2 com fome | 1 com sono",
    "pt is fs": "3 cansada | 2 perdida | 2 contente | 2 com fome | 1 com sono",
    "pt is mp": "3 cansados | 2 perdidos | 2 contentes | 2 com fome | 1 com sono",
    "pt is fp": "3 cansadas | 2 perdidas | 2 contentes | 2 com fome | 1 com sono",
    "pt question": "3 onde está {pt missed s}? | 2 onde estão {pt missed p}?"
    " | 2 quem {pt made s}? | 1 por que {pt climber s} {pt climbed s}? | 2 você viu {pt missed s}?",
    "pt missed s": "2 o {pt cat ms} | 2 a {pt cat fs} | 1 o {pt dog ms} | 1 o {pt boy ms}"
    " | 1 a {pt boy fs}",
    "pt missed p": "2 os {pt cat mp} | 2 as {pt cat fp} | 1 os {pt dog mp} | 1 os {pt boy mp}"
    " | 1 as {pt boy fp}",
}

ENGLISH = {
    "english": "14 {en said} | 3 {en time} {en said} | 4 {en said} {en time}"
    " | 6 {en state} | 5 {en question}",
    "en said": "5 {en climber s} {en climbed} | 3 {en runner s} {en ran}"
    " | 3 {en bird s} {en flew} | 5 the {en person s} {en made}"
    " | 3 the {en climber p} {en climbed} | 2 the {en runner p} {en ran}"
    " | 2 the {en bird p} {en flew} | 2 {en people} {en made}",
    "en time": "3 yesterday | 2 today | 2 in the morning | 2 at night | 1 after the rain",
    # who
    "en climber s": "4 the {en climber} | 1 {en a climber}",
    "en climber": "3 {en cat s} | 1 {en look} {en cat s}",
    "en climber p": "3 {en cat p} | 1 {en look} {en cat p}",
    "en a climber": "6 a {en cat s} | 2 a {en colour} {en cat s} | 1 an old {en cat s}",
    "en cat s": "4 cat | 2 monkey | 1 squirrel",
    "en cat p": "4 cats | 2 monkeys | 1 squirrels",
    "en runner s": "4 the {en runner} | 1 {en a runner}",
    "en runner": "3 {en dog s} | 1 {en look} {en dog s}",
    "en runner p": "3 {en dog p} | 1 {en look} {en dog p}",
    "en a runner": "6 a {en dog s} | 2 a {en colour} {en dog s} | 1 an old {en dog s}",
    "en dog s": "3 dog | 2 rabbit | 2 horse | 1 fox | 1 sheep",
    "en dog p": "3 dogs | 2 rabbits | 2 horses | 1 foxes | 1 sheep",
    "en bird s": "4 the {en bird} | 1 {en a bird}",
    "en bird": "4 {en owl s} | 1 {en size} {en owl s}",
    "en bird p": "4 {en owl p} | 1 {en size} {en owl p}",
    "en a bird": "3 a bird | 2 an owl | 1 a parrot | 1 a small {en owl s} | 1 an old {en owl s}",
    "en owl s": "3 bird | 2 owl | 1 parrot | 1 swallow",
    "en owl p": "3 birds | 2 owls | 1 parrots | 1 swallows",
    "en person s": "5 {en boy s} | 1 {en mood} {en boy s}",
    "en people": "6 the {en boy p} | 1 the {en mood} {en boy p} | 1 the boy and the girl"
    " | 1 the king and the queen",
    "en boy s": "3 boy | 3 girl | 2 king | 2 queen | 1 painter",
    "en boy p": "3 boys | 3 girls | 1 painters",
    # what they are like
    "en look": "5 {en colour} | 1 old",
    "en colour": "3 black | 2 white | 2 small",
    "en size": "2 small | 1 old",
    "en mood": "2 tired | 1 curious | 1 happy",
    # what they did
    "en climbed": "5 climbed {en high} | 2 jumped {en down} | 3 slept on {en soft}",
    "en climb inf": "5 climb {en high} | 2 jump {en down} | 3 sleep on {en soft}",
    "en high": "4 onto the roof | 2 over the wall | 2 up the tree | 1 onto the table",
    "en down": "2 off the wall | 2 out of the window | 1 off the chair",
    "en soft": "3 the sofa | 2 the bed | 1 the chair",
    "en ran": "4 ran {en away} | 2 drank water from {en water} | 3 slept {en out}",
    "en away": "2 home | 2 to the river | 1 to the beach | 2 across the field | 1 through the town",
    "en water": "2 the river | 1 the lake | 1 the fountain",
    "en out": "3 in the garden | 1 under the tree | 1 near the river",
    "en flew": "4 flew over {en over} | 2 landed on {en perch} | 3 sang {en stage}",
    "en over": "2 the river | 2 the house | 1 the sea | 1 the trees",
    "en perch": "2 the roof | 1 the wall | 2 the window",
    "en stage": "2 in the tree | 1 by the window | 2 in the garden",
    "en made": "3 opened {en door} | 2 closed {en door} | 3 read {en text} | 2 wrote {en letter}"
    " | 2 bought {en goods} | 3 saw {en sight}",
    "en make inf": "3 open {en door} | 2 close {en door} | 3 read {en text} | 2 write {en letter}"
    " | 2 buy {en goods} | 3 see {en sight}",
    "en door": "3 the door | 3 the window | 1 the gate",
    "en text": "2 the book | 1 the newspaper | 2 {en letter}",
    "en letter": "2 a letter | 1 a story | 1 a poem",
    "en goods": "2 bread | 1 flowers | 1 an apple | 1 a hat",
    "en sight": "2 {en a climber} | 1 {en a bird} | 1 {en a runner} | 1 the moon | 1 the sea",
    # how they are, and what one asks
    "en state": "5 the {en climber} is {en is} | 4 the {en climber p} are {en is}"
    " | 3 the {en cat s} that {en climbed} is {en is}"
    " | 2 the {en cat p} that {en climbed} are {en is}"
    " | 3 the {en boy s} is {en is} | 2 the {en boy p} are {en is}",
    "en is": "3 tired | 2 lost | 2 happy | 2 hungry | 1 sleepy",
    "en question": "3 where is {en missed s}? | 2 where are {en missed p}? | 2 who {en made}?"
    " | 1 why did {en climber s} {en climb inf}? | 1 did the {en boy s} {en make inf}?"
    " | 2 did you see {en missed s}?",
    "en missed s": "3 the {en cat s} | 2 the {en dog s} | 2 the {en boy s}",
    "en missed p": "3 the {en cat p} | 2 the {en dog p} | 2 the {en boy p}",
}

RULES = {"line": "{portuguese} | {english}"} | PORTUGUESE | ENGLISH


@cache
def grammar() -> Grammar:
    """The grammar of the corpus, made once."""
    return Grammar(RULES)


@cache
def text() -> str:
    """The corpus: what the grammar said when it was asked with `SEED`."""
    return grammar().sample(np.random.default_rng(SEED), LENGTH)
