// Words of the page in two languages. Both catalogues have the same keys: the type of the second says so, and a test.

import { en } from '../words/en'
import { zh } from '../words/zh'
import type { Text } from './trace'

export type Lang = 'en' | 'zh'
export type Key = keyof typeof en

const CATALOGUES: Record<Lang, Record<Key, string>> = { en, zh }

/** The words `key`, with `{name}` replaced. In English, `{n|token|tokens}` chooses by number. */
export function say(lang: Lang, key: Key, values: Record<string, string | number> = {}): string {
  return CATALOGUES[lang][key].replace(/\{(\w+)(?:\|([^|}]*)\|([^}]*))?\}/g, (_, name: string, one?: string, many?: string) => {
    const value = values[name]
    if (one !== undefined && many !== undefined) return new Intl.PluralRules(lang).select(Number(value)) === 'one' ? one : many
    return String(value ?? '')
  })
}

/** A text of the engine. */
export const told = (lang: Lang, text: Text | null | undefined): string => text?.[lang] ?? ''

/** The language of a reader who has not chosen. */
export const preferred = (languages: readonly string[]): Lang =>
  languages.find((language) => /^(en|zh)\b/i.test(language))?.toLowerCase().startsWith('zh') ? 'zh' : 'en'
