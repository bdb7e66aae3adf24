/** Checks the files in deploy/ against the code: every command, option, variable, port, path and metric exists. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { runInNewContext } from 'node:vm'
import { describe, expect, it } from 'vitest'
import { refuseOpenPort } from '../src/cli/guard/http-guard.ts'
import { parse, parseAllDocuments } from 'yaml'
import { GROUPS_OF } from '../src/cli/options/option-spec.ts'
import { flagOf, OPTION_TABLE, variableOf } from '../src/cli/options/option-table.ts'
import { resolveConfig } from '../src/cli/options/resolve-config.ts'
import { serveConfig } from '../src/cli/options/serve-config.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const DEPLOY = join(ROOT, 'deploy')
const METRICS = readFileSync(join(ROOT, 'docs/metrics.md'), 'utf8')
const read = (path: string): string => readFileSync(join(DEPLOY, path), 'utf8')

interface Container {
  readonly image: string
  readonly args?: readonly string[]
  readonly env?: readonly { readonly name: string; readonly value?: string }[]
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[]
  readonly [field: string]: unknown
}

interface Manifest {
  readonly kind: string
  readonly metadata: { readonly name: string }
  readonly spec: Record<string, unknown>
}

const manifests = readdirSync(join(DEPLOY, 'kubernetes'))
  .filter((name) => name !== 'kustomization.yaml')
  .flatMap((name) => parseAllDocuments(read(`kubernetes/${name}`)))
  .map((document) => {
    expect(document.errors).toEqual([])
    return document.toJS() as Manifest
  })
const containers = manifests.flatMap(({ spec }) => {
  const template = spec['template'] as { spec: { containers: Container[] } } | undefined
  return template?.spec.containers ?? []
})
const ours = containers.filter(({ image }) => image === 'baton')

/** Checks a command line with its variables as the program does; returns the configuration. */
function configOf(line: readonly string[], environment: Record<string, string> = {}) {
  const [command = '', ...words] = line
  expect(Object.keys(GROUPS_OF)).toContain(command)
  const groups: readonly string[] = GROUPS_OF[command as keyof typeof GROUPS_OF]
  const flags: Record<string, unknown> = {}
  for (let at = 0; at < words.length; at++) {
    const option = OPTION_TABLE.find((one) => flagOf(one) === words[at])
    expect([words[at], option?.group]).toEqual([words[at], expect.toBeOneOf([...groups])])
    flags[option?.key ?? ''] = option?.value === '' ? true : words[++at]
  }
  const variables = OPTION_TABLE.map(variableOf)
  for (const name of Object.keys(environment)) expect(variables).toContain(name)
  const config = serveConfig(resolveConfig({ flags, environment, file: '/dev/null' }))
  if (groups.includes('http')) refuseOpenPort(config)
  return config
}

/** A value that the platform fills in. */
const FILLED: Record<string, string> = {
  BATON_WIRE_SECRET: 'x',
  BATON_ADMIN_TOKEN: 'x',
  BATON_WORKER_HOST: '10.0.0.1',
}

describe('deploy/kubernetes', () => {
  it('kustomization - lists exactly the files of the folder', () => {
    const document = parse(read('kubernetes/kustomization.yaml')) as unknown
    const { resources } = document as { resources: string[] }
    const there = readdirSync(join(DEPLOY, 'kubernetes')).filter(
      (name) => name !== 'kustomization.yaml',
    )
    expect(resources.toSorted()).toEqual(there.toSorted())
  })

  it('every container - has valid options and variables, and names the discovery', () => {
    expect(ours).toHaveLength(3)
    for (const { args = [], env = [] } of ours) {
      const environment = env.map(({ name, value }) => [name, value ?? FILLED[name] ?? 'missing'])
      const config = configOf(args, Object.fromEntries(environment) as Record<string, string>)
      expect(config.discovery?.kind).toBe('nats')
    }
  })

  it('ports and probes - exist in the process', () => {
    const admin = readFileSync(join(ROOT, 'src/host/worker/worker-admin.ts'), 'utf8')
    const http = readFileSync(join(ROOT, 'docs/http-api.md'), 'utf8')
    for (const { args = [], ports = [], ...rest } of ours) {
      const config = configOf(args)
      const [port] = ports
      expect(port?.containerPort).toBe(args[0] === 'worker' ? config.adminPort : config.port)
      const pages = args[0] === 'worker' ? admin : http
      for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe']) {
        const { httpGet } = rest[probe] as { httpGet: { path: string; port: string } }
        expect(httpGet.port).toBe(port?.name)
        expect(pages).toMatch(new RegExp(`['\`]${httpGet.path}['\`]`))
      }
      const hook = JSON.stringify(rest['lifecycle'])
      if (args[0] === 'worker') expect(hook).toContain(':9000/engine/drain')
    }
    expect(admin).toContain("'/engine/drain'")
  })

  it('every container - runs as non-root with a read-only file system and has time to drain', () => {
    for (const { kind, spec } of manifests) {
      if (kind !== 'Deployment') continue
      const { template } = spec as {
        template: {
          spec: {
            containers: (Container & { securityContext: object })[]
            securityContext: object
            terminationGracePeriodSeconds?: number
          }
        }
      }
      expect(template.spec.securityContext).toMatchObject({ runAsNonRoot: true })
      for (const { image, args = [], securityContext } of template.spec.containers) {
        expect(securityContext).toMatchObject({
          readOnlyRootFilesystem: true,
          allowPrivilegeEscalation: false,
        })
        if (image !== 'baton') continue
        const { drainSeconds, graceSeconds } = configOf(args)
        const grace = template.spec.terminationGracePeriodSeconds ?? 30
        expect(grace).toBeGreaterThan(drainSeconds + (args[0] === 'worker' ? graceSeconds : 5))
      }
    }
  })

  it('metrics of autoscalers, and names that objects refer to - exist', () => {
    const deployments = manifests.filter(({ kind }) => kind === 'Deployment')
    const names = new Set(deployments.map(({ metadata }) => metadata.name))
    for (const { kind, spec } of manifests) {
      if (kind !== 'HorizontalPodAutoscaler') continue
      expect(names).toContain((spec['scaleTargetRef'] as { name: string }).name)
      for (const { object } of spec['metrics'] as { object: { metric: { name: string } } }[]) {
        expect(METRICS).toContain(`\`${object.metric.name}\``)
      }
    }
    for (const name of names) {
      if (name === 'baton-nats') continue
      const budgets = manifests.filter(({ kind }) => kind === 'PodDisruptionBudget')
      expect(budgets.map(({ metadata }) => metadata.name)).toContain(name)
    }
  })
})

interface Pod {
  readonly labels: Record<string, string>
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[]
}

interface Selector {
  readonly matchLabels?: Record<string, string>
  readonly matchExpressions?: readonly { key: string; operator: string; values: string[] }[]
}

const pods = manifests
  .filter(({ kind }) => kind === 'Deployment')
  .map(({ spec }): Pod => {
    const { metadata, spec: pod } = spec['template'] as {
      metadata: { labels: Record<string, string> }
      spec: { containers: Container[] }
    }
    const ports = pod.containers.flatMap((container) => container.ports ?? [])
    return { labels: metadata.labels, ports }
  })

function chosenBy({ matchLabels = {}, matchExpressions = [] }: Selector): readonly Pod[] {
  return pods.filter(
    ({ labels }) =>
      Object.entries(matchLabels).every(([key, value]) => labels[key] === value) &&
      matchExpressions.every(({ key, operator, values }) => {
        expect(operator).toBe('In')
        return values.includes(labels[key] ?? '')
      }),
  )
}

describe('deploy/kubernetes: selectors', () => {
  const of = (wanted: string) => manifests.filter(({ kind }) => kind === wanted)

  it('every Deployment and PodDisruptionBudget - selects the pods of one Deployment; each pod has one budget', () => {
    for (const { spec } of [...of('Deployment'), ...of('PodDisruptionBudget')])
      expect(chosenBy(spec['selector'] as Selector)).toHaveLength(1)
    const budgeted = of('PodDisruptionBudget').flatMap(({ spec }) =>
      chosenBy(spec['selector'] as Selector),
    )
    expect(new Set(budgeted).size).toBe(budgeted.length)
  })

  it('every Service - targets a port that its pods have', () => {
    for (const { spec } of of('Service')) {
      const there = chosenBy({ matchLabels: spec['selector'] as Record<string, string> })
      expect(there).toHaveLength(1)
      for (const { name, targetPort = name } of spec['ports'] as {
        name: string
        targetPort?: string
      }[])
        expect(there[0]?.ports.map((port) => port.name)).toContain(targetPort)
    }
  })

  it('every NetworkPolicy - selects existing pods and allows existing pods on ports that they listen on', () => {
    const guarded = of('NetworkPolicy').flatMap(({ spec }) => {
      const chosen = chosenBy(spec['podSelector'] as Selector)
      expect(chosen.length).toBeGreaterThan(0)
      for (const { from = [], ports = [] } of spec['ingress'] as {
        from?: { podSelector: Selector }[]
        ports?: { port: number }[]
      }[]) {
        for (const { podSelector } of from) expect(chosenBy(podSelector).length).toBe(3)
        for (const { port } of ports)
          for (const pod of chosen)
            expect(pod.ports.map(({ containerPort }) => containerPort)).toContain(port)
      }
      return chosen
    })
    expect(guarded).toHaveLength(pods.length)
    expect(new Set(guarded)).toEqual(new Set(pods))
  })

  it("every preStop hook of a worker - is a program that posts to the worker's own admin port, over IPv4 or IPv6", () => {
    const posted: unknown[] = []
    for (const { lifecycle } of ours) {
      const [program, flag, text = ''] = (lifecycle as { preStop: { exec: { command: string[] } } })
        .preStop.exec.command
      if (program !== 'node') continue
      expect(flag).toBe('-e')
      for (const ip of ['10.0.0.1', 'fd00::7']) {
        const fetch = (url: string, asked: object) => posted.push([new URL(url).href, asked])
        const env = { BATON_WORKER_HOST: ip, BATON_ADMIN_TOKEN: 'hush' }
        runInNewContext(text, { process: { env }, fetch })
      }
    }
    const asked = { method: 'POST', headers: { authorization: 'Bearer hush' } }
    const both = ['10.0.0.1', '[fd00::7]'].map((host) => [
      `http://${host}:9000/engine/drain`,
      asked,
    ])
    expect(posted).toEqual([...both, ...both])
  })
})

describe('deploy/compose.yaml', () => {
  it('every service of Baton - has a valid command line', () => {
    const document = parse(read('compose.yaml'), { merge: true }) as unknown
    const { services } = document as {
      services: Record<
        string,
        {
          image: string
          command: string[]
          read_only?: boolean
          environment: Record<string, string>
        }
      >
    }
    const lines = Object.values(services).filter(({ image }) => image === 'baton')
    expect(lines).toHaveLength(3)
    for (const { command, read_only: readOnly, environment } of lines) {
      expect(configOf(command, environment).discovery?.kind).toBe('nats')
      expect(readOnly).toBe(true)
    }
  })
})

describe('deploy/systemd and deploy/Dockerfile', () => {
  it('every ExecStart - is a valid command line', () => {
    for (const name of readdirSync(join(DEPLOY, 'systemd'))) {
      const [, line = ''] =
        /^ExecStart=\/usr\/bin\/env baton (.*)$/m.exec(read(`systemd/${name}`)) ?? []
      for (const mode of ['prefill', 'decode', 'agg']) configOf(line.replace('%i', mode).split(' '))
    }
  })

  it('the image - copies existing files, runs what the build creates, and is not root', () => {
    const image = read('Dockerfile')
    const { bin } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
      bin: { baton: string }
    }
    for (const [, sources = ''] of image.matchAll(/^COPY (?!--from)(.*) \S+$/gm)) {
      for (const source of sources.split(' '))
        expect([source, existsSync(join(ROOT, source))]).toEqual([source, true])
    }
    expect(image).toContain(`"${bin.baton.replace('./', '')}"`)
    expect(image).toMatch(/^USER (?!0|root)/m)
    const [, command = '[]'] = /^CMD (.*)$/m.exec(image) ?? []
    configOf(JSON.parse(command) as string[])
    for (const [, variable = ''] of image.matchAll(/\b(BATON_\w+)=/g))
      expect(OPTION_TABLE.map(variableOf)).toContain(variable)
    // npm installs nothing from there either.
    const [, run = ''] = /^RUN (npm run build[^]*?[^\\])$/m.exec(image) ?? []
    expect(run).toMatch(/npm pkg delete devDependencies peerDependencies .*\n.*npm install .*EXTRA/)
    expect(image).toContain('EXPOSE 8000')
  })
})
