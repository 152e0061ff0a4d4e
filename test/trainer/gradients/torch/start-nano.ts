// A trainer for a test that kills it: starts the worker, one process per device named on the command line, prints their pids, and holds on to it.
import { openNano } from './nano-backend.ts';
import { torchPython } from './torch-python.ts';

const devices = process.argv.slice(2);
const backend = await openNano({ options: { python: torchPython.path!, ...(devices.length > 0 && { devices }) } });
process.stdout.write(`${backend.pids.join(' ')}\n`);
await backend.exited;
