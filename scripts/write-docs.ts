/**
 * Writes the generated pages of docs/.
 */
import { writeFileSync } from 'node:fs'
import { configurationPage, metricsPage } from './generated-docs.ts'

writeFileSync(new URL('../docs/configuration.md', import.meta.url), configurationPage())
writeFileSync(new URL('../docs/metrics.md', import.meta.url), metricsPage())
