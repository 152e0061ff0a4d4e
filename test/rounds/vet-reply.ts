/** What a vetter replies that passes a row. */
export const PASS = {
  pass: true,
  reasons: ['fine'],
  flags: { query_collapse: false, repetitive: false, gibberish: false, evidence_mismatch: false, format_violation: false },
  severity: 0,
};
