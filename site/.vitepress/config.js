/** The documentation site: a static folder, `.vitepress/dist`, which any web server can serve. */
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const PAGES = fileURLToPath(new URL('../.pages', import.meta.url))

/** The build does not check links of the menu, so this function does. */
function page(text, link) {
  const path = `${PAGES}${link.endsWith('/') ? `${link}index` : link}.md`
  if (!existsSync(path)) throw new Error(`the menu links to ${link}, which does not exist`)
  return { text, link }
}

export default {
  title: 'Baton',
  description: 'Disaggregated LLM serving in TypeScript',
  srcDir: '.pages',
  cleanUrls: true,
  // A dead link fails the build. Links to localhost are examples.
  ignoreDeadLinks: 'localhostLinks',
  markdown: { html: false },
  themeConfig: {
    outline: 'deep',
    search: { provider: 'local' },
    nav: [page('Start', '/'), page('Operate', '/docs/deploy'), page('API', '/api/')],
    sidebar: [
      {
        text: 'Start',
        items: [
          page('Quick start', '/'),
          page('Concepts', '/docs/concepts'),
          page('Architecture', '/ARCHITECTURE'),
          page('From other routers', '/docs/from-other-routers'),
          page('From Dynamo', '/docs/from-dynamo'),
          page('Clients', '/docs/clients'),
        ],
      },
      {
        text: 'Engines',
        items: [
          page('Existing engines', '/docs/engines-people-run'),
          page('vLLM', '/docs/engine-vllm'),
          page('SGLang', '/docs/engine-sglang'),
          page('llama-server', '/docs/engine-llama-server'),
          page('OpenAI servers', '/docs/engine-openai'),
          page('Forwarding requests', '/docs/forwarding'),
          page('Custom engines', '/docs/engines'),
        ],
      },
      {
        text: 'Operate',
        items: [
          page('Deploy', '/docs/deploy'),
          page('Discovery', '/docs/discovery'),
          page('Keys and tenants', '/docs/keys'),
          page('Observing a fleet', '/docs/operate'),
          page('Drain, restart, versions', '/docs/operations'),
          page('Troubleshooting', '/docs/troubleshooting'),
          page('Console', '/docs/console'),
          page('Metrics', '/docs/metrics'),
          page('Traces', '/docs/tracing'),
          page('Configuration', '/docs/configuration'),
          page('Guarantees', '/docs/guarantees'),
          page('Security', '/SECURITY'),
        ],
      },
      {
        text: 'In depth',
        items: [
          page('Routing', '/docs/routing'),
          page('Routing quality', '/docs/routing-quality'),
          page('Lifecycles', '/docs/lifecycles'),
          page('Wire protocol', '/docs/wire'),
          page('Simulator', '/docs/laboratory'),
          page('Performance', '/docs/performance'),
        ],
      },
      {
        text: 'Reference',
        items: [
          page('HTTP API', '/docs/http-api'),
          page('Errors', '/docs/errors'),
          page('OpenAPI', '/openapi'),
          page('TypeScript API', '/api/'),
          page('Extending', '/docs/extending'),
          page('Contributing', '/CONTRIBUTING'),
          page('Changelog', '/CHANGELOG'),
        ],
      },
    ],
  },
}
