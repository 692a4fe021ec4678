import { mount } from 'svelte'
import './app.css'
import { Engine, frozen, inside } from './core/source'
import { Page } from './state.svelte'
import App from './view/App.svelte'

const read = (id: string): string | undefined => {
  const text = document.getElementById(id)?.textContent ?? ''
  return text.trim() === '' ? undefined : text
}

const page = new Page(new Engine((path, init) => fetch(path, init)))
const target = document.getElementById('page')
try {
  page.open(inside(read), location.hash, navigator.languages)
} catch (error) {
  page.open({ trace: undefined, tensors: frozen(undefined), document: undefined }, location.hash, navigator.languages)
  page.fault = { code: 'trace', message: error instanceof Error ? error.message : String(error) }
}
target?.replaceChildren()
if (target) mount(App, { target, props: { page } })
