/**
 * Decides whether an address is public: not this machine, its network or a cloud's metadata service, in any
 * notation.
 */
import { BlockList, isIPv6 } from 'node:net'

/** IANA's special-purpose address registry, 2026; whole blocks where a part is special. */
const SPECIAL_V4 = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.31.196.0', 24],
  ['192.52.193.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['192.175.48.0', 24],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
] as const

/** Addresses outside of global unicast (2000::/3) are refused as a whole; these are the exceptions within it. */
const SPECIAL_V6 = [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
] as const

const special = new BlockList()
for (const [address, bits] of SPECIAL_V4) special.addSubnet(address, bits, 'ipv4')
for (const [address, bits] of SPECIAL_V6) special.addSubnet(address, bits, 'ipv6')

const globalUnicast = new BlockList()
globalUnicast.addSubnet('2000::', 3, 'ipv6')

/** `address`: as the resolver returns it. An IPv4 address embedded in IPv6 counts as not public. */
export function isPublicAddress(address: string): boolean {
  if (!isIPv6(address)) return !special.check(address, 'ipv4')
  if (address.includes('%')) return false
  return globalUnicast.check(address, 'ipv6') && !special.check(address, 'ipv6')
}
