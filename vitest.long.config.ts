import { defineConfig } from 'vitest/config';
import base from './vitest.config.ts';

/** `npm run test:long`: calibrations, long learning runs, and kills beyond one per file format. `.ci/run` does not run them; docs/results/test-long.md has the last result. */
export default defineConfig({
  ...base,
  test: { ...base.test, include: ['test/**/*.long.test.ts'], exclude: [], testTimeout: 300_000, hookTimeout: 300_000 },
});
