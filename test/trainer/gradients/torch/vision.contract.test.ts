import { afterAll, beforeAll, describe } from 'vitest';
import { gradientBackendContract } from '../../../contracts/gradient-backend.ts';
import { openVlm } from './nano-backend.ts';
import { randomVlm, type RandomVlm, type VlmForm } from './random-vlm.ts';
import { plainAutograd, skipReason, torchPython } from './torch-python.ts';

describe.skipIf(torchPython.path === null).each<[VlmForm, string, readonly string[]]>([
  ['qwen2_5_vl', 'TorchBackend with images', ['cpu']],
  ['qwen3_vl', 'TorchBackend of two processes with images', ['cpu', 'cpu']],
])(`over a random %s${skipReason}`, (form, name, devices) => {
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
});
