import { describe, expect, it } from 'vitest';
import { loadError } from '../../../src/trainer/publisher/lora-refusals.ts';

describe('loadError', () => {
  it('says what to do about a folder that the user of the server may not read', () => {
    // Recorded from vLLM 0.32.0.
    const message =
      "Call to add_lora method failed: Worker failed with error '[Errno 13] Permission denied: '<path>'', please check the stack trace above for the root cause";
    const body = Buffer.from(JSON.stringify({ error: { message, type: 'InternalServerError', param: null, code: 500 } }));
    const error = loadError('POST', '/data/run/adapters/v1', { status: 500, headers: {}, body });
    expect(error).toMatchObject({ status: 500, endsRun: true, retryable: false });
    expect(error.message).toMatch(
      /^The server's user may not read \/data\/run\/adapters\/v1: .*Give it permission to read the folder.*move the run with -o/,
    );
  });
});
