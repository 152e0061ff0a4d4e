import { defineConfig } from 'vitest/config';
import base from './vitest.config.ts';

/** `npm run test:long`: calibrations, long learning runs, kills beyond one per file format, and the attacks of test/attacks again, with their memory measured. `.ci/run` does not run them; docs/results/test-long.md has the last result. */
export default defineConfig({
  ...base,
  test: {
    ...base.test,
    include: ['test/**/*.long.test.ts', 'test/attacks/*.test.ts'],
    exclude: [],
    env: { ...base.test?.env, VF_MEASURE_MEMORY: '1' },
    testTimeout: 300_000,
    hookTimeout: 300_000,
  },
});
