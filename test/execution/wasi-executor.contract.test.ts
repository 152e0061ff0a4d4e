/** The executor that every machine has; isolationContract tags half of the endless programs: tags: 'long'. */
import { describe } from 'vitest';
import { openExecutor } from '../../src/execution/index.ts';
import { codeExecutorContract } from '../contracts/code-executor.ts';
import { isolationContract } from '../contracts/code-executor-attacks.ts';

describe('WasiExecutor', () => {
  codeExecutorContract(() => openExecutor('wasi', { workers: 2, cacheBytes: 0 }));
  isolationContract(() => openExecutor('wasi', { workers: 1, cacheBytes: 0 }), 0, { escapes: 'together' });
});
