#!/bin/sh
# Makes the training files of the English→Chinese translator.
#
#   sh prepare.sh CORPORA BACK OUT
#
# CORPORA  a folder with the corpora of data/ATTRIBUTION.md: English, tab, Chinese; NAME.tsv.gz
# BACK     a Chinese→English model, whose translations of Chinese sentences become further English sides (opus-zh-en)
# OUT      where the files go; those that are there are not made again
#
# GLASSFORMER names the program, by default `glassformer`.
set -eu
corpora=$1 back=$2 out=$3
program=${GLASSFORMER:-glassformer}
export LC_ALL=C.UTF-8
mkdir -p "$out"

# English as it is compared: lower case, letters and digits only, no spaces around.
key='function key(text) { text = tolower(text); gsub(/[^a-z0-9]+/, " ", text); gsub(/^ | $/, "", text); return text }'
for name in tatoeba-dev 3am-captions-val newstest2018.en-zh tico19-test.en-zh; do
    zcat "$corpora/$name.tsv.gz"
done | cut -f1 > "$out/held-out.en"

# pairs NAME: what comes in, without pairs whose English is held out and without repetitions, as OUT/NAME.tsv.gz.
pairs() {
    awk -F '\t' "$key"'
        NR == FNR { held[key($0)]; next }
        NF == 2 && $1 != "" && $2 != "" && !(key($1) in held) && !seen[$0]++
    ' "$out/held-out.en" - | gzip -9n > "$out/$1.tsv.gz"
    echo "$1: $(zcat "$out/$1.tsv.gz" | wc -l) pairs"
}

# back NAME CORPUS SAMPLES: the Chinese of a corpus with the English that the other model writes for it.
back() {
    [ -e "$out/$1.tsv.gz" ] && return
    zcat "$corpora/$2.tsv.gz" | cut -f2 | awk '!seen[$0]++' > "$out/$2.zh"
    "$program" translate --model "$back" --dtype int8 --beams 1 --file "$out/$2.zh" > "$out/$2.0.en"
    for seed in $(seq "$3"); do
        "$program" translate --model "$back" --dtype int8 --beams 1 --temperature 0.9 --top-p 0.9 --seed "$seed" \
            --file "$out/$2.zh" > "$out/$2.$seed.en"
    done
    for english in "$out/$2".[0-9].en; do
        paste "$english" "$out/$2.zh"
    done | pairs "$1"
}

pairs greetings < "$(dirname "$0")/greetings.tsv"
zcat "$corpora/tatoeba-train.tsv.gz" | pairs everyday
zcat "$corpora/3am-captions-train.tsv.gz" | pairs captions
zcat "$corpora/xquad.tsv.gz" | pairs questions
# What people type: no capitals, no full stop; then the Chinese has none either.
zcat "$corpora/tatoeba-train.tsv.gz" | awk -F '\t' -v OFS='\t' '
    { $1 = tolower($1); if (sub(/[.!?]+$/, "", $1)) sub(/(。|！|？|!|\?|\.)+$/, "", $2); print }
' | pairs typed
# Game texts and documents without markup, places to fill in, code, or long sentences.
zcat "$corpora/cataclysm-dda-0F.tsv.gz" | grep -v '[][%<>{}_\\|█#*=]' |
    awk -F '\t' 'split($1, words, " ") <= 30' | pairs game
for name in python-docs k8s-docs mdn-docs pingcap-docs starrocks-docs istio-docs tldr-pages libreoffice-help-7-4; do
    zcat "$corpora/$name.tsv.gz"
done | grep -v '[][%<>{}_\\|`#*=/]' | awk -F '\t' 'split($1, words, " ") <= 25' | pairs documents
back everyday-back tatoeba-train 2
back captions-back 3am-captions-train 1
rm -f "$out"/*.en "$out"/*.zh
