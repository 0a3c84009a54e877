"""Sentences in a few languages: enough to have titles, shingles, letters outside ASCII and a guessable charset."""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from random import Random

from pipelines.toyweb.chance import draw

_EN = """water wheel river bucket lake stone mill garden valley bridge spring canal farmer harvest field orchard
wind rain season winter summer morning evening village market road harbour ship sailor island coast tide letter
paper book library story teacher school lesson question answer number table record page archive museum painting
music dance song voice theatre actor camera picture light shadow colour iron copper silver gold glass wood leather
cotton wool bread butter cheese apple pear plum cherry honey salt pepper kitchen oven fire smoke window door roof
tower castle church square street station train engine machine tool hammer needle thread cloth doctor hospital
medicine science theory method measure balance pressure heat energy motor battery signal network computer program
memory language grammar sentence word meaning history future century king queen council law judge court police
trade price coin bank credit journey traveller map compass mountain forest desert animal horse cattle sheep goat
bird eagle sparrow fish salmon insect spider flower rose tulip grass seed root branch leaf moon star planet cloud
turns carries lifts pours fills reaches follows crosses builds mends opens closes finds keeps loses gives takes
brings sells buys reads writes draws counts weighs cuts joins holds moves waits begins ends grows falls rises
old new small large quiet early late narrow deep bright dark slow quick heavy light green blue red white the a
of and in on under over with without near behind between before after until because while where when that this"""
_DE = """das Wasser Rad Fluss Brücke Mühle Straße Gärten größer Häuser früh schön über zwischen während für müde
Bücher Schüler Lehrer Wörter Sätze Geschichte Zukunft Jahrhundert König Bäcker Brötchen Käse Äpfel Birnen Öl und
der die ein eine nicht mit ohne nach vor hinter trägt läuft fällt wächst schließt öffnet hört weiß groß klein alt neu"""
_FR = """la rivière le moulin à eau été hiver forêt château fenêtre église école élève leçon première dernière où
très près après déjà même être avoir naître connaître garçon français goût août cœur sœur œuvre île côte vérité
lumière couleur étoile métier marché bière crème pâte blé et de du des un une dans sur sous avec sans pour par"""
_RU = """вода колесо река мост мельница сад улица город деревня дорога книга школа учитель урок вопрос ответ слово
язык история будущее век король хлеб молоко сыр яблоко груша соль огонь дом окно дверь крыша башня поезд машина
лес гора море остров звезда луна и в на под над без около между потому когда где это новый старый большой малый"""
_EL = """νερό τροχός ποτάμι γέφυρα μύλος κήπος δρόμος πόλη χωριό βιβλίο σχολείο δάσκαλος μάθημα ερώτηση απάντηση
λέξη γλώσσα ιστορία μέλλον αιώνας βασιλιάς ψωμί γάλα τυρί μήλο αλάτι φωτιά σπίτι παράθυρο πόρτα πύργος τρένο δάσος
βουνό θάλασσα νησί αστέρι φεγγάρι και σε από με χωρίς κοντά ανάμεσα επειδή όταν όπου αυτό νέος παλιός μεγάλος"""
_JA = """水車 川 橋 庭 道 町 村 本 学校 先生 授業 質問 答え 言葉 歴史 未来 世紀 王様 パン 牛乳 チーズ りんご 塩 火 家 窓
扉 塔 電車 機械 森 山 海 島 星 月 は が を に で と から まで そして 新しい 古い 大きい 小さい 静かな 早い 回る 運ぶ 開く"""

WORDS = {"en": _EN, "de": _DE, "fr": _FR, "ru": _RU, "el": _EL, "ja": _JA}
VOCABULARY = {language: tuple(text.split()) for language, text in WORDS.items()}
_SHUFFLED = {
    language: tuple(sorted(words, key=lambda word: draw("rank", word)))
    for language, words in VOCABULARY.items()
}
_WEIGHTS = {
    language: tuple(accumulate(1 / (rank + 12) for rank in range(len(words))))
    for language, words in VOCABULARY.items()
}
SENTENCES = 4_000
"""Different sentences a language has: pages share some by chance, as real ones do."""


@lru_cache(maxsize=8 * SENTENCES)
def sentence(language: str, number: int) -> str:
    """Return one of a language's sentences; the same for every web."""
    chance = Random(draw("sentence", language, number))
    chosen = chance.choices(_SHUFFLED[language], cum_weights=_WEIGHTS[language], k=chance.randint(6, 15))
    text = " ".join(chosen)
    return f"{text[0].upper()}{text[1:]}."


def paragraph(language: str, key: str, sentences: int) -> str:
    """Return a paragraph that depends on `key` alone."""
    return " ".join(sentence(language, draw(key, n) % SENTENCES) for n in range(sentences))


@lru_cache(maxsize=65_536)
def phrase(language: str, key: str, words: int) -> str:
    """Return some words for a title or an anchor."""
    vocabulary = VOCABULARY[language]
    text = " ".join(vocabulary[draw(key, n) % len(vocabulary)] for n in range(words))
    return f"{text[0].upper()}{text[1:]}"


def slug(key: str) -> str:
    """Return an ASCII word for a path."""
    return VOCABULARY["en"][draw(key, "slug") % 170]
