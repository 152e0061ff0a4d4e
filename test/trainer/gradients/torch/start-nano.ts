// A trainer for a test that kills it: starts the worker, prints its pid, and holds on to it.
import { openNano } from './nano-backend.ts';

const backend = await openNano();
process.stdout.write(`${backend.pid}\n`);
await backend.exited;
