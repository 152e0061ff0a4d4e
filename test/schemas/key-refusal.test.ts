import { describe, expect, it } from 'vitest';
import { refusedBy } from '../../src/schemas/key-refusal.ts';

describe('refusedBy', () => {
  it.each([
    [401, 'anything', 'key'],
    [403, '', 'key'],
    [403, 'Forbidden', 'key'],
    [403, '{"error":{"message":"Access denied.","code":403}}', 'key'],
    [403, '{"detail":"Invalid API key"}', 'key'],
    [403, '{"error":{"message":"Your API key does not have permission to use the specified resource."}}', 'key'],
    [403, '{"message":"The security token included in the request is invalid"}', 'key'],
    [403, '{"error":"You must authenticate first"}', 'key'],
    [401, '<!doctype html><title>Sign in</title>', 'page'],
    [401, '{"error":"The key-value store is full"}', 'key'],
    [403, '{"error":"This key may not be used: it is not active"}', 'key'],
    [403, '{"error":"The key lacks permission for this route"}', 'key'],
    [403, '{"error":"Key-value pairs in metadata are not allowed for this project"}', 'other'],
    [403, '{"error":"metadata holds a key-value pair that the policy forbids"}', 'other'],
    [403, '{"error":"The key \'tools\' is not allowed in this region"}', 'other'],
    [403, '<html><title>403</title>nginx</html>', 'page'],
    [403, '{"error":{"message":"Loading lora x failed: the directory must be under /data (--allow-adapters-under)","code":403}}', 'other'],
    [403, '{"error":{"message":"Country, region, or territory not supported","code":"unsupported_country_region_territory"}}', 'other'],
    [403, '{"error":{"message":"Project proj_1 does not have access to model gpt-5","code":"model_not_found"}}', 'other'],
    [403, 'The host header names another server.', 'other'],
    [404, 'Invalid API key', null],
    [500, '<html>', null],
  ] as const)('reads a %i of %s as a refusal of: %s', (status, body, refused) => {
    expect(refusedBy(status, Buffer.from(body))).toBe(refused);
  });
});
