// The browser that tests drive: the system's own Chromium.

import { type Browser, type Page, chromium } from 'playwright-core'

const CHROMIUM = process.env['CHROMIUM'] ?? '/usr/bin/chromium'
const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync']

export const launch = (): Promise<Browser> => chromium.launch({ executablePath: CHROMIUM, args: FLAGS })

/** What a page did that it should not: requests, errors, and what its policy forbade. */
export interface Watched {
  page: Page
  requests: string[]
  faults: string[]
}

export async function open(browser: Browser, address: string, size = { width: 1440, height: 900 }): Promise<Watched> {
  const page = await browser.newPage({ viewport: size, locale: 'en' })
  const watched: Watched = { page, requests: [], faults: [] }
  page.on('request', (request) => watched.requests.push(request.url()))
  page.on('console', (message) => void (['error', 'warning'].includes(message.type()) && watched.faults.push(message.text())))
  page.on('pageerror', (error) => watched.faults.push(error.message))
  await page.goto(address)
  return watched
}

/** Goes to a selection, as an address says it. */
export async function go(page: Page, hash: string): Promise<void> {
  await page.evaluate((to) => {
    location.hash = to
    return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))
  }, hash)
}
