/**
 * The console: a page without a framework that shows a running fleet. Started by `page.html`.
 *
 * Owns: which page is shown, the key, the state of the connection.
 */
import { ChatPage } from './chat/chat-page.ts'
import { h } from './data/dom.ts'
import { setKey } from './data/server.ts'
import { Store } from './data/store.ts'
import { FleetPage } from './fleet/fleet-page.ts'
import { OperatePage } from './operate/operate-page.ts'
import { RequestsPage } from './requests/requests-page.ts'

const store = new Store()
const fleet = new FleetPage(store)
const chat = new ChatPage(store)
const requests = new RequestsPage(store)
const operate = new OperatePage()

const main = h('main', { id: 'main', tabindex: -1 })
const link = h('span', { class: 'link', role: 'status' })
const key = h('form', { class: 'key', hidden: true, submit: (event) => takeKey(event) })
key.append(
  h(
    'label',
    {},
    'API key of an operator ',
    h('input', { name: 'key', type: 'password', autocomplete: 'off' }),
  ),
  h('button', { type: 'submit' }, 'Use it'),
)
const PAGES = [
  ['fleet', 'Fleet'],
  ['chat', 'Chat'],
  ['requests', 'Requests'],
  ['operate', 'Operate'],
] as const
const links = PAGES.map(([name, title]) => h('a', { href: `#/${name}` }, title))

function takeKey(event: Event): void {
  event.preventDefault()
  const typed = new FormData(event.target as HTMLFormElement).get('key')
  setKey(typeof typed === 'string' ? typed.trim() : '')
  location.reload()
}

function show(): void {
  const [, name = 'fleet', id] = location.hash.split('/')
  const page = { chat, requests, operate }[name] ?? fleet
  if (page === requests) requests.show(id === undefined ? null : decoded(id))
  if (page === operate) operate.show()
  if (main.firstElementChild !== page.element) main.replaceChildren(page.element)
  PAGES.forEach(([each], i) => {
    if (each === (page === fleet ? 'fleet' : name)) links[i]?.setAttribute('aria-current', 'page')
    else links[i]?.removeAttribute('aria-current')
  })
  document.title = `Baton: ${PAGES.find(([each]) => each === name)?.[1] ?? 'Fleet'}`
}

/** The fragment of a hand-typed address may be malformed. */
function decoded(id: string): string {
  try {
    return decodeURIComponent(id)
  } catch {
    return id
  }
}

/** Moves the focus of screen readers and the Tab key to the content, without changing the address. */
function skipToContent(event: Event): void {
  event.preventDefault()
  main.focus()
}

function showLink(): void {
  const version = store.fleet === null ? '' : `Baton ${store.fleet.version}, `
  const text = store.link === 'live' ? `${version}live` : `${store.link}: ${store.problem}`
  // Setting the same text again would be announced again.
  if (link.textContent !== text) link.textContent = text
  link.dataset['state'] = store.link === 'live' ? 'live' : 'lost'
  key.hidden = store.link !== 'key wanted'
}

document.body.append(
  h('a', { class: 'skip', href: '#main', click: skipToContent }, 'Skip to content'),
  h('header', {}, h('strong', {}, 'Baton'), h('nav', { 'aria-label': 'Pages' }, ...links), link),
  key,
  main,
)
store.subscribe((changed) => {
  showLink()
  fleet.update(changed)
  chat.update()
  requests.update()
  operate.update()
})
addEventListener('hashchange', () => {
  show()
  main.focus({ preventScroll: true })
})
show()
void store.run()
