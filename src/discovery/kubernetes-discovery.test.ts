/** Workers that are found as pods in the Kubernetes API. */
import { spawnSync } from 'node:child_process'
import { describe, expect, it, onTestFinished } from 'vitest'
import { DiscoveryRecord, sampleCard } from '../testing/discovery-kit.ts'
import { DISCOVERY_FAULT_CHECKS } from '../testing/discovery-faults.ts'
import type { FaultScene } from '../testing/discovery-faults.ts'
import { until } from '../../test/until.ts'
import { KubernetesServer } from '../../test/kubernetes-api.ts'
import type { KubernetesOptions } from './kubernetes/kubernetes-api.ts'
import { PodWatch } from './kubernetes/pod-watch.ts'
import { AddressFleet, WITHOUT_REGISTER } from '../../test/fixtures/address-fleet.ts'

/** openssl makes the certificate of the API server. */
const HAS_OPENSSL = spawnSync('openssl', ['version']).status === 0

const API_FAULTS: Readonly<
  Record<string, (api: KubernetesServer) => Pick<FaultScene, 'begin' | 'end' | 'isTold'>>
> = {
  'gone, and back': (api) => ({
    begin: () => {
      api.status = 503
      api.disconnect()
    },
    end: () => {
      api.status = null
    },
    isTold: true,
  }),
  'silent, and back': (api) => ({
    begin: () => {
      api.isSilent = true
      api.disconnect()
    },
    end: () => {
      api.isSilent = false
    },
    isTold: true,
  }),
}

describe.skipIf(!HAS_OPENSSL).each(Object.entries(API_FAULTS))(
  'kubernetes: - the API is %s',
  (_, faultOf) => {
    it.each(DISCOVERY_FAULT_CHECKS)('$name', async ({ run }) => {
      const api = await KubernetesServer.start()
      const { accountFolder } = api
      const pods = new PodWatch({ api: api.api, accountFolder, selector: 'a=b', listMs: 200 })
      const fleet = new AddressFleet(() => pods.addresses(), {
        put: ({ workerId, port }) => api.put(workerId, port),
        remove: ({ workerId }) => api.remove(workerId),
      })
      onTestFinished(async () => {
        await fleet.discovery.close()
        pods.close()
        await api.close()
      })
      const fault = faultOf(api)
      await run({ worker: fleet.asWorker(), frontend: fleet.discovery, ttlMs: 300, ...fault })
    })
  },
)

describe.skipIf(!HAS_OPENSSL)('kubernetes: - faults of the API', () => {
  async function startApi(
    options: Partial<KubernetesOptions> = { selector: 'a=x y' },
  ): Promise<{ api: KubernetesServer; pods: PodWatch }> {
    const api = await KubernetesServer.start()
    onTestFinished(() => api.close())
    const pods = new PodWatch({ api: api.api, accountFolder: api.accountFolder, ...options })
    onTestFinished(() => pods.close())
    return { api, pods }
  }
  const portsOf = async (pods: PodWatch) =>
    (await pods.addresses().catch(() => [])).map(({ port }) => port).toSorted((a, b) => a - b)
  const known = async (pods: PodWatch, ...ports: readonly number[]) =>
    await until(
      `pods at ${ports.join()}`,
      async () => (await portsOf(pods)).join() === ports.join(),
    )
  const lists = ({ asked }: KubernetesServer) =>
    asked.filter((url) => !url.includes('watch=')).length

  it.each(WITHOUT_REGISTER)('$name', async ({ run }) => {
    const { api, pods } = await startApi()
    const fleet = new AddressFleet(() => pods.addresses(), {
      put: ({ workerId, port }) => api.put(workerId, port),
      remove: ({ workerId }) => api.remove(workerId),
    })
    onTestFinished(() => fleet.discovery.close())
    await run({ worker: fleet.asWorker(), frontend: fleet.discovery })
  })

  it('one list and one watch - with token, certificate authority, namespace and selector', async () => {
    const { api, pods } = await startApi()
    api.put('a', 1)
    await known(pods, 1)
    api.put('b', 2)
    await known(pods, 1, 2)
    api.put('a', 1, { phase: 'Succeeded', podIP: '127.0.0.1' })
    await known(pods, 2)
    api.remove('b')
    await known(pods)
    expect(api.asked[0]).toBe(
      'Bearer hush /api/v1/namespaces/fleet/pods?labelSelector=a%3Dx%20y&resourceVersion=0',
    )
    expect([api.asked.length, lists(api)]).toEqual([2, 1])
    // A hang of the API is noticed when a watch does not end after this time.
    expect(api.asked[1]).toContain('&timeoutSeconds=30&')
  })

  it('a connection that is lost - is resumed from the last version, bookmarks included, without a list', async () => {
    const { api, pods } = await startApi()
    api.put('a', 1)
    await known(pods, 1)
    await until('it watches', () => api.watchCount === 1)
    api.put('b', 2)
    await known(pods, 1, 2)
    api.bookmark()
    api.forget()
    api.put('c', 3)
    await known(pods, 1, 2, 3)
    api.disconnect()
    api.put('d', 4)
    await known(pods, 1, 2, 3, 4)
    expect(lists(api)).toBe(1)
  })

  it('an expired version, and the connection stays open - is followed by a list', async () => {
    const { api, pods } = await startApi()
    api.put('a', 1)
    await known(pods, 1)
    await until('it watches', () => api.watchCount === 1)
    api.expireOnly()
    await until('it lists again', () => lists(api) === 2)
    api.put('b', 2)
    await known(pods, 1, 2)
  })

  it('an expired version, reported during the watch or at its start - is followed by a list', async () => {
    const { api, pods } = await startApi()
    api.put('a', 1)
    await known(pods, 1)
    await until('it watches', () => api.watchCount === 1)
    api.expire()
    api.put('b', 2)
    await known(pods, 1, 2)
    expect(lists(api)).toBe(2)
    await until('it watches again', () => api.watchCount === 1)
    // A change without a watch, whose event the API no longer has.
    api.disconnect()
    api.remove('a')
    api.put('c', 3)
    api.forget()
    await known(pods, 2, 3)
    expect(lists(api)).toBe(3)
  })

  it.each([
    ['what is no JSON', '<html>\n'],
    ['half an event at its end', '{"type":"ADDED","object":{"metadata"'],
    ['an event that is none', '[]\n7\n{"type":"ADDED","object":null}\n'],
  ])('%s in a watch - ends that watch; the next one works', async (_, bytes) => {
    const { api, pods } = await startApi()
    api.put('a', 1)
    await known(pods, 1)
    await until('it watches', () => api.watchCount === 1)
    api.endWith(bytes)
    api.put('b', 2)
    await known(pods, 1, 2)
    expect(lists(api)).toBe(1)
  })

  it('an API that lists but refuses the watch - is unavailable until it allows it, and the missing permission is named', async () => {
    const { api, pods } = await startApi()
    api.put('a', 1)
    api.watchStatus = 403
    await until('it is refused', async () => {
      const said = await pods.addresses().then(() => '', String)
      return said.includes('needs permission to list and watch pods')
    })
    api.put('b', 2)
    api.watchStatus = null
    await known(pods, 1, 2)
  })

  it('an API that accepts requests and does not answer - is unavailable until it does', async () => {
    const { api, pods } = await startApi({ listMs: 50 })
    api.isSilent = true
    await expect(pods.addresses()).rejects.toMatchObject({ code: 'discovery.unavailable' })
    api.isSilent = false
    api.put('a', 1)
    await known(pods, 1)
  })

  it('an API that stops answering after a watch was lost - is unavailable all the time, not only between attempts', async () => {
    const { api, pods } = await startApi({ listMs: 100 })
    api.put('a', 1)
    await known(pods, 1)
    await until('it watches', () => api.watchCount === 1)
    api.isSilent = true
    api.disconnect()
    const isAway = async (): Promise<boolean> =>
      await pods.addresses().then(
        () => false,
        () => true,
      )
    await until('it is away', isAway)
    const asked = api.asked.length
    const seen: boolean[] = []
    await until('it has tried again', async () => {
      seen.push(await isAway())
      return api.asked.length > asked + 1
    })
    expect(new Set(seen)).toEqual(new Set([true]))
    api.isSilent = false
    api.put('b', 2)
    await known(pods, 1, 2)
  })

  it('a watch that the API ends after its time - is followed by another without a list, and nothing is unavailable', async () => {
    const { api, pods } = await startApi({ watchSeconds: 1 })
    api.put('a', 1)
    await known(pods, 1)
    await until('three watches', async () => {
      await pods.addresses()
      return api.asked.length === 4
    })
    expect(lists(api)).toBe(1)
  })

  it('a cluster restored from a backup whose API accepts a watch from its future and is silent - is listed after ten silent watches', async () => {
    const { api, pods } = await startApi({ watchSeconds: 0.05 })
    for (const [index, name] of ['a', 'b', 'c', 'd'].entries()) api.put(name, index + 1)
    await known(pods, 1, 2, 3, 4)
    await until('it watches', () => api.watchCount === 1)
    api.restore()
    api.put('e', 5)
    await known(pods, 5)
    expect(lists(api)).toBe(2)
    // A watch that brings something is not silent.
    const asked = api.asked.length
    await until('twelve more watches', () => {
      api.bookmark()
      return api.asked.length > asked + 12
    })
    expect(lists(api)).toBe(2)
  })

  it('an API that hangs while a watch is open - is unavailable until it answers, and the changes follow', async () => {
    const { api, pods } = await startApi({ listMs: 500, watchSeconds: 1 })
    api.put('a', 1)
    await known(pods, 1)
    await until('it watches', () => api.watchCount === 1)
    api.isSilent = true
    api.hang()
    api.put('b', 2)
    api.remove('a')
    await until('it is away', async () => {
      const said = await pods.addresses().then(() => '', String)
      return said.includes('did not answer in time')
    })
    api.isSilent = false
    await known(pods, 2)
  })

  it('an API that refuses, and recovers - known workers stay in use, and changes follow', async () => {
    const { api, pods } = await startApi()
    const card = sampleCard(1)
    const fleet = new AddressFleet(() => pods.addresses(), {
      put: ({ workerId, port }) => api.put(workerId, port),
      remove: () => undefined,
    })
    onTestFinished(() => fleet.discovery.close())
    await fleet.asWorker().register(card)
    const record = new DiscoveryRecord()
    await fleet.discovery.watch(record)
    await record.until('joined 1')
    api.status = 503
    api.disconnect()
    await record.until('away')
    await expect(pods.addresses()).rejects.toMatchObject({
      code: 'discovery.unavailable',
      message: expect.stringContaining('status 503') as string,
    })
    api.status = null
    await record.until('back')
    expect(record.told.filter((line) => line.startsWith('left'))).toEqual([])
  })
})
