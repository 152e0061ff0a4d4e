/**
 * The filter of system calls for a sandbox of namespaces, as a program of the kernel's seccomp. It refuses memory that no limit of a process counts (shared
 * segments, files in memory, queues), and calls that a Python program does not need and that had faults in kernels.
 */

interface Architecture {
  /** AUDIT_ARCH of linux/audit.h. */
  readonly audit: number;
  readonly refused: readonly number[];
  /** The first number of a second table for the same calls. */
  readonly otherTable: number | null;
}

// shmget, msgget, memfd_create, memfd_secret, io_uring_setup, userfaultfd, bpf, perf_event_open, add_key, request_key, keyctl
const ARCHITECTURES: Readonly<Partial<Record<NodeJS.Architecture, Architecture>>> = {
  x64: { audit: 0xc000003e, refused: [29, 68, 319, 447, 425, 323, 321, 298, 248, 249, 250], otherTable: 0x40000000 },
  arm64: { audit: 0xc00000b7, refused: [194, 186, 279, 447, 425, 282, 280, 241, 217, 218, 219], otherTable: null },
};

const LOAD_WORD = 0x20;
const JUMP_EQUAL = 0x15;
const JUMP_AT_LEAST = 0x35;
const RETURN = 0x06;
const ALLOW = 0x7fff0000;
/** With the error EPERM. */
const REFUSE = 0x00050001;
const NUMBER_AT = 0;
const ARCHITECTURE_AT = 4;

/** Instructions of eight bytes, little-endian; null for an architecture whose numbers are not known here. */
export function systemCallFilter(architecture: NodeJS.Architecture): Uint8Array | null {
  const known = ARCHITECTURES[architecture];
  if (known === undefined) return null;
  const { audit, refused, otherTable } = known;
  const tests = [...(otherTable === null ? [] : [[JUMP_AT_LEAST, otherTable] as const]), ...refused.map((call) => [JUMP_EQUAL, call] as const)];
  const program = [
    [LOAD_WORD, 0, 0, ARCHITECTURE_AT],
    // Calls of another architecture have other numbers: on to the refusal, behind the load, the tests and the permission.
    [JUMP_EQUAL, 0, tests.length + 2, audit],
    [LOAD_WORD, 0, 0, NUMBER_AT],
    ...tests.map(([jump, value], i) => [jump, tests.length - i, 0, value]),
    [RETURN, 0, 0, ALLOW],
    [RETURN, 0, 0, REFUSE],
  ] as const;
  const bytes = Buffer.alloc(8 * program.length);
  for (const [i, [code, then, otherwise, value]] of program.entries()) {
    bytes.writeUInt16LE(code, 8 * i);
    bytes.writeUInt8(then, 8 * i + 2);
    bytes.writeUInt8(otherwise, 8 * i + 3);
    bytes.writeUInt32LE(value, 8 * i + 4);
  }
  return bytes;
}
