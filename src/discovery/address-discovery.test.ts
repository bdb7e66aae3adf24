/**
 * Discovery by addresses, with real connections to workers; and pods as the Kubernetes API lists them.
 */
import { spawnSync } from 'node:child_process'
import { describe, expect, it, onTestFinished } from 'vitest'
import { BatonError } from '../base/index.ts'
import { DISCOVERY_CHECKS, DiscoveryRecord, sampleCard } from '../testing/discovery-kit.ts'
import { DISCOVERY_FAULT_CHECKS } from '../testing/discovery-faults.ts'
import type { FaultScene } from '../testing/discovery-faults.ts'
import { until } from '../../test/until.ts'
import { AddressDiscovery } from './address-discovery.ts'
import type { FollowListener } from './address-discovery.ts'
import type { HostPort } from './discovery-url.ts'
import type { WorkerCard } from '../request/index.ts'
import { KubernetesServer } from '../../test/kubernetes-api.ts'
import type { Discovery } from './discovery.ts'
import { PodWatch } from './kubernetes/pod-watch.ts'

/** Makes the certificate of the API server. */
const HAS_OPENSSL = spawnSync('openssl', ['version']).status === 0

/** What is said at each port: a card, null (no requests now), or nothing at all. Who listens hears every change. */
class Answers {
  readonly #said = new Map<number, unknown>()
  readonly #listeners = new Map<number, Set<FollowListener>>()
  dials = 0

  set(port: number, said: unknown): this {
    this.#said.set(port, said)
    for (const listener of this.#listeners.get(port) ?? []) listener.onCard(said)
    return this
  }

  /** The process at the port is gone. */
  delete(port: number): void {
    this.#said.delete(port)
    const listeners = this.#listeners.get(port) ?? []
    this.#listeners.delete(port)
    for (const listener of listeners) listener.onLost(new Error('hung up'))
  }

  get connections(): number {
    return [...this.#listeners.values()].reduce((sum, { size }) => sum + size, 0)
  }

  readonly follow = ({ port }: HostPort, listener: FollowListener) => {
    this.dials += 1
    let isClosed = false
    queueMicrotask(() => {
      if (isClosed) return
      if (!this.#said.has(port)) {
        listener.onLost(new BatonError('transport.cannot_connect', 'refused'))
        return
      }
      const there = this.#listeners.get(port) ?? new Set()
      this.#listeners.set(port, there.add(listener))
      listener.onCard(this.#said.get(port))
    })
    return {
      close: () => {
        isClosed = true
        this.#listeners.get(port)?.delete(listener)
      },
    }
  }
}

function discoveryOver(answers: Answers, addresses: () => Promise<readonly HostPort[]>) {
  const discovery = new AddressDiscovery({
    addresses,
    follow: answers.follow,
    ttlMs: 300,
    pollMs: 20,
  })
  onTestFinished(() => discovery.close())
  return discovery
}

const at = (...ports: readonly number[]): readonly HostPort[] =>
  ports.map((port) => ({ host: '127.0.0.1', port }))

describe('AddressDiscovery', () => {
  it('who answers joins, with the address by which it was found; who drains leaves; who is silent expires', async () => {
    const answers = new Answers().set(1, sampleCard(1, { host: '0.0.0.0' })).set(2, sampleCard(2))
    const record = new DiscoveryRecord()
    const watch = await discoveryOver(answers, () => Promise.resolve(at(1, 2, 3))).watch(record)
    expect([...watch.cards.keys()].toSorted()).toEqual(['1', '2'])
    expect(record.cards.get('1')).toMatchObject({ host: '127.0.0.1', port: 1 })
    answers.set(1, null)
    await record.until('left 1 closed')
    answers.delete(2)
    await record.until('left 2 expired')
    answers.set(1, sampleCard(1))
    await until('it is back', () => record.cards.has('1'))
  })

  it('another worker at an address, and an address that is gone', async () => {
    const answers = new Answers().set(1, sampleCard(1))
    let addresses = at(1)
    const record = new DiscoveryRecord()
    await discoveryOver(answers, () => Promise.resolve(addresses)).watch(record)
    answers.set(1, sampleCard(9))
    await record.until('joined 9')
    expect(record.told.slice(0, 3)).toEqual(['joined 1', 'left 1 expired', 'joined 9'])
    addresses = []
    await record.until('left 9 closed')
  })

  it('what is no card - is reported once and not believed', async () => {
    const answers = new Answers().set(1, { workerId: 'x' })
    const record = new DiscoveryRecord()
    await discoveryOver(answers, () => Promise.resolve(at(1))).watch(record)
    answers.set(2, null)
    await record.until('unreadable 127.0.0.1:1')
    expect(record.cards.size).toBe(0)
  })

  it('a fleet in which nothing happens - is dialled once, and never again', async () => {
    const answers = new Answers()
    const ports = Array.from({ length: 1_000 }, (_, index) => index + 1)
    for (const port of ports) answers.set(port, sampleCard(port))
    let looks = 0
    const addresses = () => {
      looks += 1
      return Promise.resolve(at(...ports))
    }
    const watch = await discoveryOver(answers, addresses).watch(new DiscoveryRecord())
    expect(watch.cards.size).toBe(1_000)
    await until('twenty looks later', () => looks > 20)
    expect([answers.dials, answers.connections]).toEqual([1_000, 1_000])
    watch.close()
    expect(answers.connections).toBe(0)
  })

  it('an address where nobody is - is dialled with growing pauses', async () => {
    const answers = new Answers()
    let looks = 0
    const addresses = () => {
      looks += 1
      return Promise.resolve(at(1))
    }
    const record = new DiscoveryRecord()
    await discoveryOver(answers, addresses).watch(record)
    await until('forty looks later', () => looks > 40)
    expect(answers.dials).toBeLessThan(10)
    answers.set(1, sampleCard(1))
    await record.until('joined 1')
  })

  it('one that is lost and back within its time to live - was never away', async () => {
    const answers = new Answers().set(1, sampleCard(1))
    const record = new DiscoveryRecord()
    await discoveryOver(answers, () => Promise.resolve(at(1))).watch(record)
    answers.delete(1)
    answers.set(1, sampleCard(1))
    await until('connected again', () => answers.connections === 1)
    expect(record.told).toEqual(['joined 1'])
  })

  it('an address that goes while it is dialled - leaves the place to others', async () => {
    let addresses: readonly number[] = []
    let dials = 0
    const discovery = new AddressDiscovery({
      addresses: () => Promise.resolve(at(...addresses)),
      follow: ({ port }, listener) => {
        dials += 1
        if (port === 999) queueMicrotask(() => listener.onCard(sampleCard(port)))
        return { close: () => undefined }
      },
      pollMs: 20,
    })
    onTestFinished(() => discovery.close())
    const record = new DiscoveryRecord()
    await discovery.watch(record)
    addresses = Array.from({ length: 200 }, (_, index) => index + 1)
    await until('128 are dialled and say nothing', () => dials === 128)
    addresses = [999]
    await record.until('joined 999')
    expect(dials).toBe(129)
  })

  it('who knows the addresses is away - what is known stays in use', async () => {
    const answers = new Answers().set(1, sampleCard(1))
    let isAway = false
    const record = new DiscoveryRecord()
    const addresses = () => (isAway ? Promise.reject(new Error('503')) : Promise.resolve(at(1)))
    await discoveryOver(answers, addresses).watch(record)
    isAway = true
    await record.until('away')
    isAway = false
    await record.until('back')
    expect(record.told.filter((line) => line.startsWith('left'))).toEqual([])
  })
})

/** A discovery in which workers are found by their addresses, and a kit's worker that appears at one. */
class AddressFleet {
  readonly answers = new Answers()
  readonly discovery: AddressDiscovery
  readonly #told: { put(card: WorkerCard): void; remove(card: WorkerCard): void }

  constructor(
    addresses: () => Promise<readonly HostPort[]>,
    told: { put(card: WorkerCard): void; remove(card: WorkerCard): void },
  ) {
    this.#told = told
    this.discovery = new AddressDiscovery({
      addresses,
      follow: this.answers.follow,
      ttlMs: 300,
      pollMs: 20,
    })
  }

  /** As the kit sees it: to register is to be there and to answer. */
  asWorker(): Discovery {
    return {
      register: (card) => {
        const { port } = card
        this.answers.set(port, card)
        this.#told.put(card)
        return Promise.resolve({
          update: (changed) => Promise.resolve(void this.answers.set(port, changed)),
          close: () => {
            this.answers.set(port, null)
            this.#told.remove(card)
            return Promise.resolve()
          },
        })
      },
      watch: (observer) => this.discovery.watch(observer),
      close: () => this.discovery.close(),
    }
  }
}

/** Workers register nowhere, so nobody can refuse an id: two workers of one id at two addresses is one that has moved. */
const WITHOUT_REGISTER = DISCOVERY_CHECKS.filter(({ name }) => !name.startsWith('an id that is'))

describe('static: - the contract of every discovery but the refusal of an id', () => {
  it.each(WITHOUT_REGISTER)('$name', async ({ run }) => {
    const listed = at(...Array.from({ length: 10 }, (_, index) => 1000 + index))
    const nothing = { put: () => undefined, remove: () => undefined }
    const fleet = new AddressFleet(() => Promise.resolve(listed), nothing)
    for (const { port } of listed) fleet.answers.set(port, null)
    onTestFinished(() => fleet.discovery.close())
    await run({ worker: fleet.asWorker(), frontend: fleet.discovery })
  })
})

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

describe.skipIf(!HAS_OPENSSL)('kubernetes: - the same, and what the API can do wrong', () => {
  async function startApi(): Promise<{ api: KubernetesServer; pods: PodWatch }> {
    const api = await KubernetesServer.start()
    onTestFinished(() => api.close())
    const pods = new PodWatch({ api: api.api, accountFolder: api.accountFolder, selector: 'a=x y' })
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

  it('one list and one watch - with token, authority, namespace and selector', async () => {
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
  })

  it('a connection that breaks - is made again from the last version, bookmarks included, without a list', async () => {
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

  it('a version that has expired, told in the watch or at its begin - is followed by a list', async () => {
    const { api, pods } = await startApi()
    api.put('a', 1)
    await known(pods, 1)
    await until('it watches', () => api.watchCount === 1)
    api.expire()
    api.put('b', 2)
    await known(pods, 1, 2)
    expect(lists(api)).toBe(2)
    await until('it watches again', () => api.watchCount === 1)
    // What happens while nobody watches, and is forgotten before.
    api.disconnect()
    api.remove('a')
    api.put('c', 3)
    api.forget()
    await known(pods, 2, 3)
    expect(lists(api)).toBe(3)
  })

  it('an API that takes questions and does not answer - is away until it does', async () => {
    const api = await KubernetesServer.start()
    onTestFinished(() => api.close())
    const { accountFolder } = api
    const pods = new PodWatch({ api: api.api, accountFolder, listMs: 50 })
    onTestFinished(() => pods.close())
    api.isSilent = true
    await expect(pods.addresses()).rejects.toMatchObject({ code: 'discovery.unavailable' })
    api.isSilent = false
    api.put('a', 1)
    await known(pods, 1)
  })

  it('an API that refuses, and is back - what is known stays in use, and the truth follows', async () => {
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
