// After tsc: copies what the compiled environments need beside their JavaScript (README files that describe them).
import { cpSync } from 'node:fs';

cpSync('environments', 'dist/environments', { recursive: true, filter: (path) => !path.endsWith('.ts') || path.endsWith('.d.ts') });
