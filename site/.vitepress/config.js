/** The documentation site: a static folder, `.vitepress/dist`, that needs no server of its own. */
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const PAGES = fileURLToPath(new URL('../.pages', import.meta.url))

/** Links of the menu are not checked by the build. */
function page(text, link) {
  const path = `${PAGES}${link.endsWith('/') ? `${link}index` : link}.md`
  if (!existsSync(path)) throw new Error(`the menu names ${link}, which is no page`)
  return { text, link }
}

export default {
  title: 'Baton',
  description: 'Disaggregated LLM serving in TypeScript',
  srcDir: '.pages',
  cleanUrls: true,
  // A link to nowhere fails the build; addresses of this machine are examples.
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
          page('Five minutes', '/'),
          page('Concepts', '/docs/concepts'),
          page('Architecture', '/ARCHITECTURE'),
          page('Coming from others', '/docs/from-other-routers'),
          page('Coming from Dynamo', '/docs/from-dynamo'),
          page('Clients', '/docs/clients'),
        ],
      },
      {
        text: 'Engines',
        items: [
          page('Engines that people run', '/docs/engines-people-run'),
          page('vLLM', '/docs/engine-vllm'),
          page('SGLang', '/docs/engine-sglang'),
          page('llama-server', '/docs/engine-llama-server'),
          page('OpenAI servers', '/docs/engine-openai'),
          page('Passing requests through', '/docs/forwarding'),
          page('Your own engine', '/docs/engines'),
        ],
      },
      {
        text: 'Operate',
        items: [
          page('Deploy', '/docs/deploy'),
          page('Discovery', '/docs/discovery'),
          page('Keys and tenants', '/docs/keys'),
          page('Looking at a fleet', '/docs/operate'),
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
          page('The wire', '/docs/wire'),
          page('Laboratory', '/docs/laboratory'),
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
