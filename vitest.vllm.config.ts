import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';
import { LONG_TAG } from './test/long-tag.ts';
import { NODE_FLAGS } from './test/node-flags.ts';

/** `npm run test:vllm`: what needs a real vLLM. Set VLLM_BASE_URL to use one that runs; otherwise one is installed and started. */
export default defineConfig({
  resolve: { conditions: ['vf-search-source'] },
  ssr: { resolve: { conditions: ['vf-search-source'] } },
  test: {
    include: ['test/vllm/**/*.test.ts'],
    globalSetup: ['test/vllm/real-server.ts'],
    // One server, one core: files run one after the other.
    fileParallelism: false,
    tags: [LONG_TAG],
    execArgv: NODE_FLAGS,
    env: { NODE_COMPILE_CACHE: join(tmpdir(), 'vf-search-compile-cache') },
    testTimeout: 300_000,
    hookTimeout: 300_000,
    reporters: ['default', './test/count-reporter.ts'],
  },
});
