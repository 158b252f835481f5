# SPDX-License-Identifier: MIT
# What the tests make and read on the moto server of $AWS_ENDPOINT_URL, which nothing outside this machine can reach:
# moto.py image FILE             writes an image under the name of ParallelCluster's, for MOTO_AMIS_PATH
# moto.py account                a network with a public and a private subnet, a key pair, buckets; prints shell variables
# moto.py cluster NAME WORKERS   a stack with a file system, and its instances
# moto.py upload BUCKET KEY      begins an upload, and leaves it
# moto.py uploads|keys BUCKET    prints the unfinished uploads, or the keys
# moto.py compare BUCKET PREFIX FOLDER   exit code 1: contents differ
import json
import pathlib
import sys


def image(path):
    from pcluster.utils import get_installed_version

    name = f"aws-parallelcluster-{get_installed_version()}-ubuntu-2404-lts-hvm-x86_64-202501010000"
    fields = {"ami_id": "ami-0123456789abcdef0", "name": name, "description": "a stand-in", "owner_id": "247102896272",
              "public": True, "virtualization_type": "hvm", "architecture": "x86_64", "state": "available", "platform": None,
              "image_type": "machine", "hypervisor": "xen", "root_device_name": "/dev/sda1", "root_device_type": "ebs",
              "sriov": "simple", "tags": {}}
    pathlib.Path(path).write_text(json.dumps([fields]))


def client(service, region="us-east-1"):
    import boto3

    return boto3.client(service, region_name=region)


def account():
    ec2 = client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    for attribute in "EnableDnsSupport", "EnableDnsHostnames":
        ec2.modify_vpc_attribute(VpcId=vpc, **{attribute: {"Value": True}})
    subnets = [ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{i}.0/24", AvailabilityZone="us-east-1a")["Subnet"]["SubnetId"]
               for i in (0, 1)]
    ec2.modify_subnet_attribute(SubnetId=subnets[0], MapPublicIpOnLaunch={"Value": True})
    ec2.create_key_pair(KeyName="me")
    client("s3").create_bucket(Bucket="lab-bucket")
    client("s3", "eu-west-1").create_bucket(Bucket="far-bucket", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    print(f"public={subnets[0]} private={subnets[1]}")


def cluster(name, workers):
    template = {"Resources": {"shared": {"Type": "AWS::EFS::FileSystem"}}}
    tags = [{"Key": "dptrain-workers", "Value": workers}, {"Key": "dptrain-bucket", "Value": "lab-bucket/lab"}]
    client("cloudformation").create_stack(StackName=name, TemplateBody=json.dumps(template), Tags=tags)
    ec2 = client("ec2")
    for kind, n in ("HeadNode", 1), ("Compute", int(workers) - 1):
        tags = [{"Key": "parallelcluster:cluster-name", "Value": name}, {"Key": "parallelcluster:node-type", "Value": kind}]
        ec2.run_instances(ImageId="ami-0123456789abcdef0", MinCount=n, MaxCount=n, InstanceType="c5.2xlarge",
                          TagSpecifications=[{"ResourceType": "instance", "Tags": tags}])


def upload(bucket, key):
    client("s3").create_multipart_upload(Bucket=bucket, Key=key)


def uploads(bucket):
    for row in client("s3").list_multipart_uploads(Bucket=bucket).get("Uploads", []):
        print(row["Key"])


def keys(bucket):
    for row in client("s3").list_objects_v2(Bucket=bucket).get("Contents", []):
        print(row["Key"])


def compare(bucket, prefix, folder):
    s3 = client("s3")
    root = pathlib.Path(folder)
    local = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    rows = s3.list_objects_v2(Bucket=bucket, Prefix=prefix + "/").get("Contents", [])
    remote = {row["Key"][len(prefix) + 1:]: s3.get_object(Bucket=bucket, Key=row["Key"])["Body"].read() for row in rows}
    if local != remote:
        sys.exit(f"differ: {sorted(name for name in local.keys() | remote.keys() if local.get(name) != remote.get(name))}")
    print(f"{len(local)} files are equal")


if __name__ == "__main__":
    {f.__name__: f for f in (image, account, cluster, upload, uploads, keys, compare)}[sys.argv[1]](*sys.argv[2:])
