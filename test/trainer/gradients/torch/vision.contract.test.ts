import { afterAll, beforeAll, describe } from 'vitest';
import { gradientBackendContract } from '../../../contracts/gradient-backend.ts';
import { openVlm } from './nano-backend.ts';
import { randomVlm, type RandomVlm, type VlmForm } from './random-vlm.ts';
import { plainAutograd, skipReason, torchPython } from './torch-python.ts';

describe.skipIf(torchPython.path === null)(`over a random qwen2_5_vl${skipReason}`, () => {
  contract('qwen2_5_vl', 'TorchBackend with images', ['cpu']);
});
describe.skipIf(torchPython.path === null)(`over a random qwen3_vl${skipReason}`, { tags: 'long' }, () => {
  contract('qwen3_vl', 'TorchBackend of two processes with images', ['cpu', 'cpu']);
});

function contract(form: VlmForm, name: string, devices: readonly string[]): void {
  let vlm: RandomVlm;
  beforeAll(async () => {
    vlm = await randomVlm(form);
  }, 240_000);
  afterAll(() => vlm?.[Symbol.dispose]());

  gradientBackendContract(name, {
    open: (adapter) => openVlm(vlm, { adapter, options: { devices } }),
    reference: (cases) => plainAutograd(cases, { model: vlm.model, images: vlm.folder }),
    images: () => vlm.tested,
  });
}
