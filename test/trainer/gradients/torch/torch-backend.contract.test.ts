import { describe, expect, it } from 'vitest';
import { gradientBackendContract } from '../../../contracts/gradient-backend.ts';
import { plainReferences } from '../embedded/plain-autograd.ts';
import { openNano } from './nano-backend.ts';
import { NANO_BASE, plainAutograd, skipReason, torchPython } from './torch-python.ts';

it.runIf(process.env['VF_REQUIRE_TORCH'] === '1')('has a Python with torch', () => {
  expect(torchPython.reason).toBeNull();
});

describe.skipIf(torchPython.path === null)(`over the nano model${skipReason}`, () => {
  // Plain float64 without a Python to start; plain-autograd.test.ts holds it to torch's autograd.
  gradientBackendContract('TorchBackend', {
    // A Python of its own, as in a training; those of other tests are forks that find torch imported.
    open: (adapter) => openNano({ adapter, options: { python: torchPython.path! } }),
    reference: async (cases) => plainReferences(NANO_BASE, cases),
  });
  describe('in two processes', { tags: 'long' }, () => {
    gradientBackendContract('TorchBackend', {
      open: (adapter) => openNano({ adapter, options: { devices: ['cpu', 'cpu'] } }),
      reference: plainAutograd,
    });
  });
});
