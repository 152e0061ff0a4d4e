import { describe, expect, it } from 'vitest';
import { gradientBackendContract } from '../../../contracts/gradient-backend.ts';
import { openNano } from './nano-backend.ts';
import { plainAutograd, skipReason, torchPython } from './torch-python.ts';

it.runIf(process.env['VF_REQUIRE_TORCH'] === '1')('has a Python with torch', () => {
  expect(torchPython.reason).toBeNull();
});

describe.skipIf(torchPython.path === null)(`over the nano model${skipReason}`, () => {
  gradientBackendContract('TorchBackend', { open: (adapter) => openNano({ adapter }), reference: plainAutograd });
  describe('in two processes', { tags: 'long' }, () => {
    gradientBackendContract('TorchBackend', {
      open: (adapter) => openNano({ adapter, options: { devices: ['cpu', 'cpu'] } }),
      reference: plainAutograd,
    });
  });
});
