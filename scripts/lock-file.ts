/**
 * Checks a package-lock.json: every package has an integrity hash, and none names the registry it came from.
 *
 * npm writes an entry without a hash when a registry does not answer for an optional package of another platform. An
 * install on that platform would then accept any content.
 */
interface LockEntry {
  readonly version?: string
  readonly integrity?: string
  readonly resolved?: string
  readonly link?: boolean
}

export function* brokenLockEntries(text: string): Generator<string> {
  const { packages } = JSON.parse(text) as { packages: Readonly<Record<string, LockEntry>> }
  for (const [path, { version, integrity, resolved, link }] of Object.entries(packages)) {
    // The first entry is the package itself.
    if (path === '' || link === true) continue
    const name = `${path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)}@${version}`
    if (integrity === undefined)
      yield `${name} has no integrity: add the result of \`npm view ${name} dist.integrity\``
    if (resolved !== undefined)
      yield `${name} names its registry: set omit-lockfile-registry-resolved=true and remove "resolved"`
  }
}
