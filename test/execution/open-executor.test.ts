import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../src/core/errors.ts';
import { openExecutor } from '../../src/execution/index.ts';

describe('openExecutor', () => {
  it('refuses workers, memories and names that make no sense', async () => {
    for (const options of [{ workers: 0 }, { workers: 1.5 }, { cacheBytes: -1 }, { python: '/usr/bin/python3' }])
      await expect(openExecutor('wasi', options)).rejects.toBeInstanceOf(ConfigError);
    await expect(openExecutor('none', { python: 'python3' })).rejects.toThrow('must be an absolute path such as /usr/bin/python3, got "python3"');
    await expect(openExecutor('docker' as 'wasi')).rejects.toThrow('The executor "docker" is unknown. Choose wasi, bubblewrap or none');
  });
});
