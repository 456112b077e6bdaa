import { generateKeyPairSync, randomBytes, sign } from "node:crypto";
import type { KeyObject } from "node:crypto";

import { DAY_MS } from "../../src/domain/clock/duration.ts";

/** A certificate with its key, as PEM texts for a server and as an issuer. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
  readonly privateKey: KeyObject;
  readonly commonName: string;
}

export interface CertificateRequest {
  readonly commonName: string;
  /** The DNS names that it is valid for. */
  readonly names?: readonly string[];
  /** The IPv4 addresses that it is valid for. */
  readonly addresses?: readonly string[];
  /** Signs the certificate; self-signed by default. */
  readonly issuer?: Certificate;
  /** The type of its key, P-256 by default. A certificate with an RSA key needs an issuer. */
  readonly keyType?: "rsa";
  /** Whether it may sign other certificates. */
  readonly isAuthority?: boolean;
  /** Its end; tomorrow by default. */
  readonly notAfter?: Date;
}

/** Creates a certificate (RFC 5280) without another program. */
export function makeCertificate(request: CertificateRequest): Certificate {
  const { commonName, issuer } = request;
  const { privateKey, publicKey } =
    request.keyType === "rsa"
      ? generateKeyPairSync("rsa", { modulusLength: 2048 })
      : generateKeyPairSync("ec", { namedCurve: "P-256" });
  const notAfter = request.notAfter ?? new Date(Date.now() + DAY_MS);
  const contents = sequence(
    explicit(0, integer(Buffer.from([2]))),
    integer(Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    ECDSA_WITH_SHA256,
    nameOf(issuer?.commonName ?? commonName),
    sequence(time(new Date(notAfter.getTime() - 2 * DAY_MS)), time(notAfter)),
    nameOf(commonName),
    publicKey.export({ type: "spki", format: "der" }),
    explicit(3, sequence(...extensions(request))),
  );
  const signature = sign("sha256", contents, issuer?.privateKey ?? privateKey);
  const der = sequence(contents, ECDSA_WITH_SHA256, bitString(signature));
  const body = der.toString("base64").replace(/.{64}(?=.)/g, "$&\n");
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${body}\n-----END CERTIFICATE-----\n`,
    key: String(privateKey.export({ type: "pkcs8", format: "pem" })),
    privateKey,
    commonName,
  };
}

function extensions({
  names = [],
  addresses = [],
  isAuthority = false,
}: CertificateRequest): Buffer[] {
  const made: Buffer[] = [];
  if (isAuthority) {
    const basicConstraints = sequence(tagged(0x01, Buffer.from([0xff])));
    made.push(sequence(objectId("551d13"), tagged(0x04, basicConstraints)));
  }
  const alternatives = [
    ...names.map((name) => tagged(0x82, Buffer.from(name))),
    ...addresses.map((address) => tagged(0x87, Buffer.from(address.split(".").map(Number)))),
  ];
  if (alternatives.length > 0) {
    made.push(sequence(objectId("551d11"), tagged(0x04, sequence(...alternatives))));
  }
  return made;
}

function nameOf(commonName: string): Buffer {
  const value = tagged(0x0c, Buffer.from(commonName));
  return sequence(tagged(0x31, sequence(objectId("550403"), value)));
}

// RFC 5280 §4.1.2.5.1 requires UTCTime before 2050, with a year of two digits.
function time(date: Date): Buffer {
  const digits = date.toISOString().replace(/[-:T]/g, "").slice(2, 14);
  return tagged(0x17, Buffer.from(`${digits}Z`));
}

function bitString(bytes: Buffer): Buffer {
  return tagged(0x03, Buffer.concat([Buffer.from([0]), bytes]));
}

function integer(bytes: Buffer): Buffer {
  return tagged(0x02, bytes);
}

function objectId(hex: string): Buffer {
  return tagged(0x06, Buffer.from(hex, "hex"));
}

function explicit(number: number, contents: Buffer): Buffer {
  return tagged(0xa0 | number, contents);
}

function sequence(...parts: readonly Buffer[]): Buffer {
  return tagged(0x30, Buffer.concat(parts));
}

// DER: a tag, the length in its shortest form, the contents.
function tagged(tag: number, contents: Buffer): Buffer {
  const { length } = contents;
  const size =
    length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), contents]);
}

// 1.2.840.10045.4.3.2
const ECDSA_WITH_SHA256 = sequence(objectId("2a8648ce3d040302"));
