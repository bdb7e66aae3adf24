import { KvTcpClient, KvTcpServer } from '../src/host/index.ts'
const MB=1048576
const block=new Uint8Array(MB).fill(3)
const server = await KvTcpServer.listen({})
const client = new KvTcpClient()
const re=new Map()
for (let r=0;r<6;r++){
 const n=128
 const offer=server.offer({tokenCount:1,blockKeys:new Uint32Array(2*n),kvBytes:n*MB,release(){}},{fingerprint:'',blockTokens:16,get:()=>block})
 const t=performance.now()
 await client.pull(offer,[...Array(n).keys()],()=>true)
 console.log(((n*MB)/1e6/(performance.now()-t)).toFixed(2),'GB/s')
}
await client.close(); await server.close()
