// The keyboard: everything that the pointer can do to the selection.

import type { Page } from '../state.svelte'

export function keys(page: Page, event: KeyboardEvent): void {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return
  const target = event.target instanceof HTMLElement ? event.target : undefined
  if (event.key === 'Escape') {
    if (page.help) page.help = false
    else if (page.selection.cell) page.select({ cell: null })
    else target?.blur()
    return
  }
  if (target?.closest('input, select, textarea, dialog, [data-keys="own"]')) return
  if (!page.trace) return
  const walking = page.selection.view === 'walk'
  const pressed = (): void => event.preventDefault()
  switch (event.key) {
    case ' ':
      if (target?.closest('button, a, summary')) return
      if (!walking) return
      page.next(event.shiftKey ? -1 : 1)
      return pressed()
    case 'ArrowRight':
      if (!walking) return
      page.next(1)
      return pressed()
    case 'ArrowLeft':
      if (!walking) return
      page.next(-1)
      return pressed()
    case 'ArrowDown':
      page.moveLayer(1)
      return pressed()
    case 'ArrowUp':
      page.moveLayer(-1)
      return pressed()
    case ']':
      page.moveHead(1)
      return pressed()
    case '[':
      page.moveHead(-1)
      return pressed()
    case 't':
      page.moveWord(1)
      return pressed()
    case 'T':
      page.moveWord(-1)
      return pressed()
    case '?':
      page.help = true
      return pressed()
    default:
      if (/^[1-6]$/.test(event.key) && walking) {
        page.select({ zoom: Number(event.key) })
        pressed()
      }
  }
}
