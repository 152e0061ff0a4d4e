import { describe } from 'vitest';
import { gradientBackendContract } from '../../../contracts/gradient-backend.ts';
import { plainAutograd, skipReason, torchPython } from '../torch/torch-python.ts';
import { NANO_BASE } from './nano-adapter.ts';
import { openNano } from './nano-backend.ts';
import { plainReferences } from './plain-autograd.ts';

const reference: typeof plainAutograd = async (cases) => plainReferences(NANO_BASE, cases);

describe('over the nano model, against plain float64', () => {
  gradientBackendContract('EmbeddedBackend', { open: (adapter) => openNano({ adapter }), reference });
});

// The reference above finds what torch's autograd finds: plain-autograd.test.ts.
describe.skipIf(torchPython.path === null)(`over the nano model, against torch${skipReason}`, { tags: 'long' }, () => {
  gradientBackendContract('EmbeddedBackend', { open: (adapter) => openNano({ adapter }), reference: plainAutograd });
});
