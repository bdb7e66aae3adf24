/**
 * Room `console`: the web page at `/`.
 *
 * Owns the page: fleet with moving requests, chat, phases and decisions of a request. It runs in a browser; the
 * build makes one HTML file of it (`scripts/bundle.js`), which loads nothing from other servers.
 * May use: api, frontend, router. For: people; no other room imports it.
 */
export { costsUnder, loweredTerms } from './requests/what-if.ts'
export { barsOf } from './requests/phase-bars.ts'
