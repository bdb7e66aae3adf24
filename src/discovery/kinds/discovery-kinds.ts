/**
 * The kinds of discovery: how each is written (`memory`, `file:DIR`, `static:HOST:PORT,…`, `nats://HOST:PORT[,…]`,
 * `kubernetes[:namespace/selector]`), parsed, displayed and opened.
 *
 * Owns the list. A new kind is a class that implements `Discovery`, and an entry in each of the four parts of this
 * file; the compiler reports missing ones.
 */
import { addressText } from '../../base/index.ts'
import type { BatonError } from '../../base/index.ts'
import { AddressDiscovery } from '../address-discovery.ts'
import type { AddressDiscoveryOptions } from '../address-discovery.ts'
import type { Discovery } from '../discovery.ts'
import { FileDiscovery } from '../file-discovery.ts'
import { hostPortOf, invalidFor } from '../host-port.ts'
import type { HostPort } from '../host-port.ts'
import { refuseOutsideCluster } from '../kubernetes/kubernetes-api.ts'
import { PodWatch } from '../kubernetes/pod-watch.ts'
import { MemoryDiscovery } from '../memory-discovery.ts'
import { parseNatsAddress } from '../nats/nats-address.ts'
import type { NatsAddress } from '../nats/nats-address.ts'
import { NatsDiscovery } from '../nats/nats-discovery.ts'

export type DiscoveryAddress =
  | { readonly kind: 'memory' }
  | { readonly kind: 'file'; readonly folder: string }
  | { readonly kind: 'static'; readonly addresses: readonly HostPort[] }
  | NatsAddress
  | { readonly kind: 'kubernetes'; readonly namespace?: string; readonly selector?: string }

const FORMS =
  'memory, file:<folder>, static:<host>:<port>,…, nats://<host>:4222[,…] or kubernetes[:<namespace>/<selector>]'

/** Throws `config.invalid`. */
export function parseDiscovery(text: string): DiscoveryAddress {
  const trimmed = text.trim()
  if (trimmed === 'memory' || trimmed === 'memory:') return { kind: 'memory' }
  const [, scheme = '', rest = ''] = /^([a-z]+):?(.*)$/s.exec(trimmed) ?? []
  switch (scheme) {
    case 'file':
      return { kind: 'file', folder: folderOf(trimmed, rest) }
    case 'static':
      return { kind: 'static', addresses: addressesOf(trimmed, rest) }
    case 'nats':
    case 'tls':
      return parseNatsAddress(trimmed, '--discovery')
    case 'kubernetes':
      return kubernetesOf(rest)
    default:
      throw invalid(trimmed, `expected ${FORMS}`)
  }
}

/** For display, without secrets. */
export function describeDiscovery(address: DiscoveryAddress): string {
  switch (address.kind) {
    case 'memory':
      return 'memory'
    case 'file':
      return address.folder
    case 'static':
      return `static:${address.addresses.map(({ host, port }) => addressText(host, port)).join()}`
    case 'nats':
      return `nats://${address.servers.join()} (${address.prefix})`
    case 'kubernetes':
      return `kubernetes:${address.namespace ?? ''}/${address.selector ?? ''}`
  }
}

/** What the kinds of discovery need from the process that opens them. */
export interface DiscoveryContext {
  /** Opens connections to workers at addresses and reports their cards. */
  readonly follow: () => AddressDiscoveryOptions['follow']
  /** Called when the folder of `file:` did not exist and was created. */
  readonly onFolderMade: (folder: string) => void
}

export function openAddress(address: DiscoveryAddress, context: DiscoveryContext): Discovery {
  switch (address.kind) {
    case 'memory':
      return new MemoryDiscovery()
    case 'file':
      return new FileDiscovery({ folder: address.folder, onFolderMade: context.onFolderMade })
    case 'static':
      return new AddressDiscovery({
        addresses: () => Promise.resolve(address.addresses),
        follow: context.follow(),
      })
    case 'nats':
      return new NatsDiscovery({ address })
    case 'kubernetes': {
      const pods = new PodWatch(address)
      return new AddressDiscovery({
        addresses: () => pods.addresses(),
        refuse: refuseOutsideCluster,
        follow: context.follow(),
        onClose: () => pods.close(),
      })
    }
  }
}

function folderOf(text: string, rest: string): string {
  // file:DIR, file:/DIR, file:///DIR
  const folder = rest.startsWith('//') ? rest.slice(2) : rest
  if (folder === '') throw invalid(text, 'the folder after file: is missing')
  return folder
}

function addressesOf(text: string, rest: string): readonly HostPort[] {
  const addresses = rest
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
    .map((part) => hostPortOf(text, part))
  if (addresses.length === 0) throw invalid(text, 'the addresses after static: are missing')
  const names = new Set(addresses.map(({ host, port }) => addressText(host, port)))
  if (names.size !== addresses.length) throw invalid(text, 'the list contains an address twice')
  return addresses
}

function kubernetesOf(rest: string): DiscoveryAddress {
  const slash = rest.indexOf('/')
  const [namespace, selector] =
    slash < 0 ? [rest, ''] : [rest.slice(0, slash), rest.slice(slash + 1)]
  return {
    kind: 'kubernetes',
    ...(namespace === '' ? {} : { namespace }),
    ...(selector === '' ? {} : { selector }),
  }
}

function invalid(text: string, why: string): BatonError {
  return invalidFor('--discovery', text, why)
}
