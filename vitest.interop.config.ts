import { defineConfig } from 'vitest/config';
import { NODE_FLAGS } from './test/node-flags.ts';

/** `npm run test:interop`: proofs with real Python packages, which scripts/interop/install.sh installs. A peer that is not installed is skipped. */
export default defineConfig({
  resolve: { conditions: ['vf-search-source'] },
  ssr: { resolve: { conditions: ['vf-search-source'] } },
  test: {
    include: ['test/interop/**/*.test.ts'],
    globalSetup: ['test/interop/served-models.ts'],
    // One model serves all files, on few cores: they run one after the other.
    fileParallelism: false,
    execArgv: NODE_FLAGS,
    testTimeout: 300_000,
    hookTimeout: 300_000,
    reporters: ['default', './test/interop/result-reporter.ts', './test/count-reporter.ts'],
  },
});
