// What parts of a model are called.

import type { Key } from '../core/i18n'
import { en } from '../words/en'
import type { Page } from '../state.svelte'

const known = (key: string): key is Key => key in en

/** Encoder and decoder, where there are two; else the one stack. */
export function partName(page: Page, part: string): string {
  const parts = new Set(page.steps.map((step) => step.part))
  if (part !== 'head' && !(parts.has('source') && parts.has('target'))) return page.say('part.only')
  const key = `part.${part}`
  return known(key) ? page.say(key) : part
}

export function subName(page: Page, block: { sublayer: string }): string {
  const key = `sub.${block.sublayer.replace(/\d+$/, '')}`
  return known(key) ? page.say(key) : block.sublayer
}
