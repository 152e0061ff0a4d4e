import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';
import { LONG_TAG } from './test/long-tag.ts';
import { NODE_FLAGS } from './test/node-flags.ts';

export default defineConfig({
  // Environments import the package by its own name; "vf-search-source" resolves it to src, so tests see one copy of every class.
  resolve: { conditions: ['vf-search-source'] },
  ssr: { resolve: { conditions: ['vf-search-source'] } },
  test: {
    include: ['test/**/*.test.ts'],
    exclude: ['test/vllm/**', 'test/interop/**', 'test/**/*.long.test.ts'],
    // Vitest leaves one core idle by default. Many tests wait for child processes, so that more workers than cores are faster still.
    maxWorkers: Math.ceil(1.5 * availableParallelism()),
    // Environments that tests write are imported by Node, as in a command.
    server: { deps: { external: [/\/environment\.mjs$/] } },
    execArgv: NODE_FLAGS,
    // Tests start hundreds of commands from their TypeScript.
    env: { NODE_COMPILE_CACHE: join(tmpdir(), 'vf-search-compile-cache') },
    tags: [LONG_TAG],
    // Ends what hangs. No test is to fail because a machine is busy.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    reporters: ['default', './test/count-reporter.ts'],
  },
});
