import { globSync, readFileSync } from 'node:fs';
import { defineConfig } from 'vitest/config';
import base from './vitest.config.ts';

const holdsLongTests = (file: string) => /tags: .*'long'|@module-tag long/.test(readFileSync(file, 'utf8'));
const { projects: _, ...test } = base.test ?? {};

/** `npm run test:long`: the tests with the tag "long". `.ci/run` does not run them; docs/results/test-long.md has the last result. */
export default defineConfig({
  ...base,
  test: {
    ...test,
    include: globSync('test/**/*.test.ts').filter(holdsLongTests),
    exclude: ['test/vllm/**', 'test/interop/**'],
    testTimeout: 300_000,
    hookTimeout: 300_000,
  },
});
